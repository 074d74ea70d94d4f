#!/usr/bin/env python3
"""Makes tokenizer_golden.jsonl: texts and the token ids that an independent tokenizer gives them.

The vocabulary and merges come from a GGUF file with pre-tokenizer "smollm" (read with PyPI's gguf); the ids come
from PyPI's tokenizers, set up as that model family's tokenizer.json describes: digits one at a time, then
byte-level pieces, then byte-pair encoding. Fewer lines follow for other families: the same vocabulary with their
rules for pieces. Nothing of this project takes part.

One JSON object a line: "text" and "ids"; "pre" where it is not "smollm"; "special" where control tokens in the
text count; "lossy" where the vocabulary lacks a byte of the text, so that the ids cannot give it back.

usage: make_tokenizer_golden.py MODEL.gguf [tokenizer_golden.jsonl]
needs: pip install gguf tokenizers
"""
import json
import pathlib
import random
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

WORDS = {
    "Latin": "the quick brown fox jumps over lazy dogs Straße naïve façade crème brûlée São Łódź Þórr ðæt İstanbul "
             "ığdır Ørsted smørrebrød Việt Nam nghiêng ŋgoma ħobż l'été d'accord can't they'll I've we're she'd "
             "McDonald's O'Neill ŽLUŤOUČKÝ kůň Ĳssel ﬁnancial ﬂow ſtraße",
    "Greek": "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί Ἀθήνα φιλοσοφία ΐ ᾳ Ὀδυσσεύς μῆνιν ἄειδε θεά",
    "Cyrillic": "Съешь же ещё этих мягких французских булок да выпей чаю Київ їжак ґанок Беларусь ў Ђорђе Љубав "
                "Қазақстан өлең ҷумҳурӣ",
    "Arabic": "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر السَّلَامُ عَلَيْكُمْ پارسی گفتگو اردو ہے ١٢٣ ۴۵۶ لا",
    "Hebrew": "דג סקרן שט בים מאוכזב ולפתע מצא חברה שָׁלוֹם עולם בְּרֵאשִׁית ירושלים",
    "Devanagari": "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण नमस्ते दुनिया क्षत्रिय ज्ञान १२३ मराठी नेपाली श्री",
    "Thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า สวัสดีชาวโลก ภาษาไทย กรุงเทพมหานคร น้ำ ๑๒๓",
    "Chinese": "天地玄黃 宇宙洪荒 日月盈昃 辰宿列張 你好，世界！ 人工智能 摩尔线程 为什么天空是蓝色的？ 一二三 𠀀𪚥 龘",
    "Japanese": "いろはにほへと ちりぬるを ワカヨタレソ ツネナラム こんにちは世界 東京特許許可局 ｶﾀｶﾅ がぎぐ ヴァイオリン 々〆",
    "Korean": "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다 안녕하세요 세계 한글 뷁 ㄱㄴㄷ 각",
    "Georgian": "გთხოვთ ახლავე გაიაროთ რეგისტრაცია ვეფხისტყაოსანი საქართველო ႠႡ",
    "Armenian": "Բարեւ աշխարհ Հայաստան Երևան այբուբեն բոլոր մարդիկ ծնվում են ազատ և հավասար",
    "Tamil": "வணக்கம் உலகம் தமிழ் யாமறிந்த மொழிகளிலே தமிழ்மொழி போல் இனிதாவது எங்கும் காணோம் ௧௨௩ ஸ்ரீ",
    "Ethiopic": "ሰላም ልዑል ሰማይ አይታረስ ንጉሥ አይከሰስ አዲስ አበባ ኢትዮጵያ ፩፪፫",
    "Bengali": "আমার সোনার বাংলা আমি তোমায় ভালোবাসি ক্ষুদ্র ১২৩ বিশ্ব",
    "Khmer": "សួស្តី ពិភពលោក ភាសាខ្មែរ ភ្នំពេញ",
    "Tibetan": "བཀྲ་ཤིས་བདེ་ལེགས། འཛམ་གླིང་",
    "Cherokee": "ᎣᏏᏲ ᎡᎶᎯ ᏣᎳᎩ",
    "Symbols": "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ ∑ ∫ √2 ≈ 1.414 € £ ¥ ₿ © ® ™ ½ ⅓ Ⅷ ② ³ ¹⁰ ½ 𝟘𝟙 𝔸𝕓 ¿Qué? ¡Sí! « » „“ … – — ‽ §",
}
EMOJI = ["😀", "🎉", "👍🏽", "👩‍👩‍👧‍👦", "🧑🏿‍🚀", "🏳️‍🌈", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "🇬🇪", "🇪🇹🇯🇵", "❤️", "☺", "1️⃣", "🤷🏻‍♀️", "🐈‍⬛", "🫠", "👁️‍🗨️"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n", "\n ", "\t\t ", "\u00a0", "\u3000", "\u2009", "\u2028",
          "\u0085", "\v", "\f", "\u200b", "\ufeff", "\u180e", "\u205f", "        ", "\n\n\n\n", " \t \n "]
CODE = [
    'int main(void) { printf("%d\\n", 1 + 2); return 0; }',
    "def f(x: int = 0x1F) -> str:\n    return f'{x:08b}'  # comment\n",
    "template <typename T, size_t N = 4> constexpr auto v = std::array<T, N>{};",
    "SELECT name, COUNT(*) FROM t WHERE id >= 10 GROUP BY 1;",
    "for (let i = 0; i < 10; ++i) { a[i] ??= b?.c ?? `x${i}`; }",
    "<div class=\"a b\">&nbsp;<!-- x --></div>",
    "\\begin{align} \\frac{a}{b} &= \\sum_{i=0}^{n} x_i^2 \\\\ \\end{align}",
    "{\"key\": [1, 2.5e-10, null, true], \"näme\": \"v\\u00e4l\"}",
    "#!/bin/sh\nset -eu\n\tgrep -rn \"$1\" . | awk '{print $2}' >/dev/null 2>&1 || exit 1\n",
    "__global__ void k(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f; }",
    "https://example.org/a/b?c=d&e=%20f#g mailto:someone@example.com",
    "if (a && !b || c ^ ~d) { a <<= 2; b >>= 1; c |= 0b1010; }",
]
EDGE = [
    "", " ", "a", " a", "a ", "  a  ", "'", "''", "'s", " 's", "'S", "it's 'S 'RE 're'll", "\x00", "a\x00b", "\x7f",
    "\x01\x02\x03\x04\x05\x06\x07\x08", "!\x04!", "a\x13\x14b", "\x1b[31mred\x1b[0m", "\x1c\x1d\x1e\x1f", "0", "00",
    "007", "3.14159", "1,234,567.89", "1e-5", "12345678901234567890", " 12 ab34cd 5", "v1.2.3-rc4", "२०२४ ٢٠٢٤ 2024",
    "½¼¾", "x²+y²", "ⅣⅤ", "e\u0301", "é", "a\u0300\u0301\u0302\u0303\u0304", "\u0301", " \u0301", "Z͑ͫ̓ͪ̂ͫa͑l̓g̈o",
    "क\u094dष", "\u200d", "a\u200db", "\ufffd", "\ufffe", "\U0010ffff", "\U0001d11e", "ﷺ", "ﬀ", "İi̇", "ǅ", "ʰ", "ª",
    "_", "__init__", "a_b", "@user", "#tag", "$100", "100%", "a-b", "--", "---", "...", "…", "!?!?", "(a)", "[b]", "{c}",
    "a\nb", "a\n\nb", "a \n b", "a\r\nb", "a\rb", "\ta", "\t\ta", "    a", "a    b", "a    ", "\n\n\n", " \n", "\n \n",
    "<|im_start", "<|im_end|", "<| im_end |>", "im_start|>", "<", "|", ">", "<|", "|>", "<|>",
    "a" * 200, "ab" * 100, " " * 130, "\n" * 70, "=" * 100, "-" * 64, "0" * 60, "é" * 50, "漢" * 40, "😀" * 20, "A" * 64,
    "HTTPServerError", "camelCaseWord", "SCREAMING_SNAKE", "iPhone15Pro", "COVID-19", "H2O", "B2B", "3D", "4x4",
]
SPECIAL = [
    "<|im_start|>user\nHi<|im_end|>\n", "<|endoftext|>", "<|im_start|><|im_end|>", "a<|im_end|>b", " <|im_start|> ",
    "x<repo_name>y<file_sep>z", "<|im_start<|im_start|>", "<<|im_end|>>", "<reponame><repo_name>", "<filename>a.c\n",
    "1<|im_end|>2", "<|im_start|>system\nDu bist höflich.<|im_end|>\n<|im_start|>user\n你好😀<|im_end|>\n",
    "<jupyter_code>import x<jupyter_output>", "<|im_endd|>", "<|IM_END|>", "'<|im_end|>s", "\n<|im_end|>\n\n",
]


def byte_characters():
    """The printable stand-ins of byte-level vocabularies, in the order of the bytes."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b if b in shown else next(others)) for b in range(256)]


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern):
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
# The pieces of each family, and whether whole pieces are looked up before merging.
FAMILIES = {
    "smollm": ([pre_tokenizers.Digits(individual_digits=True), BYTE_LEVEL], False),
    "gpt-2": ([BYTE_LEVEL], False),
    "llama-bpe": (split(LLAMA3), True),
    "qwen2": (split(QWEN2), False),
    "tekken": (split(TEKKEN), True),
}


def load(path):
    """The file's vocabulary, and a function that makes a tokenizer with or without its control tokens."""
    fields = GGUFReader(path).fields
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]

    def build(family, special=False):
        pieces, ignore_merges = FAMILIES[family]
        tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges,
                                         ignore_merges=ignore_merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(pieces)
        if special:
            tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, types) if k == 3])
        return tokenizer

    return set(tokens), build


def texts(rng):
    yield from EDGE
    yield from CODE
    yield from EMOJI
    yield from SPACES
    for words in WORDS.values():
        yield words
        words = words.split(" ")
        for _ in range(14):  # sentences of one script, with its words, spaces, digits and signs
            parts = []
            for _ in range(rng.randint(2, 9)):
                parts.append(rng.choice(words))
                parts.append(rng.choice([" "] * 8 + SPACES + [", ", ". ", "-", "", "!", " (", ") ", str(rng.randint(0, 9999))]))
            yield "".join(parts)
    everything = [word for words in WORDS.values() for word in words.split(" ")] + EMOJI + CODE
    for _ in range(60):  # all scripts mixed
        yield "".join(rng.choice(everything) + rng.choice([" ", "", rng.choice(SPACES)]) for _ in range(rng.randint(2, 7)))
    for _ in range(40):  # characters at random, from the first 0x3000 and from ASCII
        yield "".join(chr(rng.choice([rng.randint(0, 0x7F), rng.randint(0x20, 0x7E), rng.randint(0xA0, 0x24F)]))
                      for _ in range(rng.randint(1, 40)))
    for _ in range(20):  # runs of white space around words
        yield "".join(rng.choice(SPACES) * rng.randint(1, 3) + rng.choice(["", "x", "don't", "7"]) for _ in range(6))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).parent / "data/tokenizer_golden.jsonl")
    vocabulary, build = load(sys.argv[1])
    characters = byte_characters()
    lines, seen = [], set()

    def add(text, tokenizer, family="smollm", special=False):
        if (text, family, special) in seen:
            return
        seen.add((text, family, special))
        line = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}
        if family != "smollm":
            line["pre"] = family
        if special:
            line["special"] = True
        if not all(characters[b] in vocabulary for b in text.encode()):
            line["lossy"] = True
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")))

    plain, special = build("smollm"), build("smollm", special=True)
    all_texts = list(texts(random.Random(20240607)))
    for text in all_texts + SPECIAL:
        add(text, plain)
    for text in SPECIAL:
        add(text, special, special=True)
    short = [text for text in all_texts if len(text) < 40]
    for i, family in enumerate(["gpt-2", "llama-bpe", "qwen2", "tekken"]):
        tokenizer = build(family)
        for text in short[i::4]:
            add(text, tokenizer, family)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    print(f"{out}: {len(lines)} lines, {out.stat().st_size} bytes, {len(WORDS)} word lists")


if __name__ == "__main__":
    main()
