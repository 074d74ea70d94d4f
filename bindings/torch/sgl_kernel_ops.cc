// torch.ops.sgl_kernel.*: upstream's operators, from the alias table.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <cstdlib>
#include <sstream>

#include "bindings/torch/adapter.h"
#include "bindings/torch/vendor.h"

namespace musaic::torch_adapter {
namespace {

struct Alias {
  const char* vendors;
  const char* since;
  const char* schema;
  const char* op;
  const char* arguments;
};

constexpr Alias kAliases[] = {
#define MUSAIC_ALIAS(vendors, since, schema, op, arguments) {vendors, since, schema, #op, arguments},
#include "bindings/torch/aliases.inc"
#undef MUSAIC_ALIAS
};

/// A factor of a size: a number, an integer argument of upstream's, or a size of a tensor argument.
struct Factor {
  std::int64_t number = 1;
  int argument = -1;
  int dimension = -1;
};

struct Source {
  enum class Kind { kArgument, kConstant, kNew, kSeed, kOffset, kRows, kSize };
  Kind kind = Kind::kConstant;
  int argument = -1;  // kArgument; kNew: the one that gives the dtype, or -1
  c10::IValue constant;
  at::ScalarType dtype = at::kFloat;       // kNew without an argument, or its default
  std::vector<std::vector<Factor>> sizes;  // kNew; kSize: one
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

at::ScalarType dtype_named(const std::string& name) {
  if (name == "float16") return at::kHalf;
  if (name == "float32") return at::kFloat;
  if (name == "int32") return at::kInt;
  throw Error("alias", "dtype", name, "float16, float32 or int32");
}

bool is_number(const std::string& s) { return !s.empty() && (s[0] == '-' || (s[0] >= '0' && s[0] <= '9')); }

/// One line of the table, resolved against both schemas.
class Plan {
 public:
  explicit Plan(const Alias& alias)
      : info_(find_operator(alias.op)), upstream_(torch::jit::parseSchema(alias.schema)) {
    const c10::FunctionSchema ours = torch::jit::parseSchema(info_.schema);
    std::unordered_map<std::string, std::string> given;
    for (const std::string& item : split(alias.arguments, ' ')) {
      const std::size_t equals = item.find('=');
      given[item.substr(0, equals)] = item.substr(equals + 1);
    }
    for (const c10::Argument& a : ours.arguments()) {
      const auto it = given.find(a.name());
      sources_.push_back(it == given.end() ? by_name(a) : parse(it->second));
      if (it != given.end()) given.erase(it);
      names_.push_back(a.name());
      written_.push_back(a.alias_info() != nullptr && a.alias_info()->isWrite());
    }
    if (!given.empty()) throw Error(upstream_.name(), "alias", given.begin()->first, "an argument of ours");
    returns_list_ =
        upstream_.returns().size() == 1 && upstream_.returns()[0].type()->kind() == c10::TypeKind::ListType;
    for (int i = 0; i < static_cast<int>(upstream_.arguments().size()); ++i)
      if (upstream_.arguments()[static_cast<std::size_t>(i)].name() == "gen") generator_ = i;
  }

  const OpInfo& info() const { return info_; }
  const c10::FunctionSchema& upstream() const { return upstream_; }

  /// `meta`: shapes alone.
  void call(torch::jit::Stack* stack, bool meta) const {
    const std::size_t given = upstream_.arguments().size(), n = sources_.size();
    const auto argument = [&](int i) -> const c10::IValue& {
      return torch::jit::peek(*stack, static_cast<std::size_t>(i), given);
    };
    std::optional<c10::Device> device;
    for (std::size_t i = 0; i < given && !device; ++i)
      if (const c10::IValue& v = argument(static_cast<int>(i)); v.isTensor() && v.toTensor().defined())
        device = v.toTensor().device();
    c10::SmallVector<Value, 8> values(n);
    c10::SmallVector<at::Tensor, 4> kept;
    c10::SmallVector<at::Tensor, 2> results;
    RandomState state;
    MemorylessViews views;
    bool known = true;
    try {
      for (std::size_t i = 0; i < n; ++i) {
        const Source& s = sources_[i];
        at::Tensor tensor;
        c10::IValue value;
        switch (s.kind) {
          case Source::Kind::kArgument:
            value = argument(s.argument);
            break;
          case Source::Kind::kConstant:
            value = s.constant;
            break;
          case Source::Kind::kSize:
            value = size(s.sizes[0], argument);
            break;
          case Source::Kind::kNew:
            tensor = fresh(s, argument, *device);
            results.push_back(tensor);
            break;
          case Source::Kind::kSeed:
          case Source::Kind::kOffset:
            if (!state.seed.defined()) state = random_state(argument, *device, meta);
            tensor = (s.kind == Source::Kind::kSeed ? state.seed : state.offset)
                         .expand_symint({outputs(argument)});
            break;
          case Source::Kind::kRows:
            tensor = meta ? at::empty_symint({outputs(argument)},
                                             at::TensorOptions().dtype(at::kLong).device(*device))
                          : at::arange(outputs(argument).expect_int(),
                                       at::TensorOptions().dtype(at::kLong).device(*device));
            break;
        }
        if (info_.parameters[i] == Value::Kind::kTensor) {
          if (!tensor.defined() && value.isTensor()) tensor = value.toTensor();
          if (!tensor.defined()) continue;
          kept.push_back(tensor);
          if (meta)
            known = known && views.view_of(tensor, info_.name, names_[i].c_str(), &values[i].tensor);
          else
            values[i] = view_of(tensor, written_[i], info_.name, names_[i].c_str());
        } else if (value.isSymInt() || value.isSymFloat() || value.isSymBool()) {
          known = false;
        } else {
          values[i] = scalar(info_.parameters[i], value);
        }
      }
    } catch (const Error& e) {
      raise(e);
    }
    if (!meta)
      run(info_, values.data(), device.value_or(c10::Device(c10::kCPU)));
    else if (known)
      check_only(info_, values.data());
    torch::jit::drop(*stack, given);
    if (returns_list_) {
      torch::jit::push(*stack, c10::List<at::Tensor>(c10::ArrayRef<at::Tensor>(results)));
    } else {
      for (at::Tensor& r : results) torch::jit::push(*stack, std::move(r));
    }
  }

 private:
  int find(const std::string& name) const {
    const auto index = upstream_.argumentIndexWithName(name);
    return index ? *index : -1;
  }

  Source by_name(const c10::Argument& a) const {
    Source s;
    if (const int i = find(a.name()); i >= 0) {
      s.kind = Source::Kind::kArgument;
      s.argument = i;
    } else if (a.default_value() || a.type()->kind() == c10::TypeKind::OptionalType) {
      s.constant = a.default_value().value_or(c10::IValue());
    } else {
      throw Error(upstream_.name(), "alias", "nothing for " + a.name(), "an argument or a default");
    }
    return s;
  }

  Source parse(const std::string& text) const {
    Source s;
    if (text == "seed" || text == "offset" || text == "rows") {
      s.kind = text == "seed"     ? Source::Kind::kSeed
               : text == "offset" ? Source::Kind::kOffset
                                  : Source::Kind::kRows;
    } else if (text.rfind("new(", 0) == 0) {
      s.kind = Source::Kind::kNew;
      const std::size_t semicolon = text.find(';');
      std::string dtype = text.substr(4, semicolon - 4);
      if (const std::size_t colon = dtype.find(':'); colon != std::string::npos) {
        s.dtype = dtype_named(dtype.substr(colon + 1));
        dtype.resize(colon);
      }
      s.argument = find(dtype);
      if (s.argument < 0) s.dtype = dtype_named(dtype);
      for (const std::string& part : split(text.substr(semicolon + 1, text.size() - semicolon - 2), ','))
        s.sizes.push_back(product(part));
    } else if (is_number(text)) {
      s.constant = text.find('.') == std::string::npos ? c10::IValue(std::int64_t{std::stoll(text)})
                                                       : c10::IValue(std::stod(text));
    } else if (text.find('.') != std::string::npos) {
      s.kind = Source::Kind::kSize;
      s.sizes.push_back(product(text));
    } else {
      s.kind = Source::Kind::kArgument;
      s.argument = find(text);
      if (s.argument < 0) throw Error(upstream_.name(), "alias", text, "an argument of upstream's");
    }
    return s;
  }

  std::vector<Factor> product(const std::string& text) const {
    std::vector<Factor> factors;
    for (const std::string& part : split(text, '*')) {
      Factor f;
      if (is_number(part)) {
        f.number = std::stoll(part);
      } else {
        const std::size_t dot = part.find('.');
        if (dot != std::string::npos) f.dimension = std::stoi(part.substr(dot + 1));
        f.argument = find(part.substr(0, dot));
        if (f.argument < 0) throw Error(upstream_.name(), "alias", part, "an argument of upstream's");
      }
      factors.push_back(f);
    }
    return factors;
  }

  template <class F>
  c10::SymInt size(const std::vector<Factor>& factors, const F& argument) const {
    c10::SymInt n = 1;
    for (const Factor& f : factors) {
      if (f.argument < 0) {
        n = n * f.number;
      } else if (f.dimension < 0) {
        n = n * argument(f.argument).toSymInt();
      } else {
        const at::Tensor& t = argument(f.argument).toTensor();
        if (f.dimension >= t.dim())
          throw Error(upstream_.name(), upstream_.arguments()[static_cast<std::size_t>(f.argument)].name(),
                      std::to_string(t.dim()) + " dimensions", std::to_string(f.dimension + 1) + " or more");
        n = n * t.sym_size(f.dimension);
      }
    }
    return n;
  }

  template <class F>
  at::Tensor fresh(const Source& s, const F& argument, c10::Device device) const {
    at::ScalarType dtype = s.dtype;
    if (s.argument >= 0) {
      const c10::IValue& v = argument(s.argument);
      if (v.isTensor())
        dtype = v.toTensor().scalar_type();
      else if (!v.isNone())
        dtype = v.toScalarType();
    }
    c10::SmallVector<c10::SymInt, 4> sizes;
    for (const auto& factors : s.sizes) {
      sizes.push_back(size(factors, argument));
      if (const auto n = sizes.back().maybe_as_int(); n && *n < 0)
        throw Error(upstream_.name(), "size", std::to_string(*n), "0 or more");
    }
    return at::empty_symint(sizes, at::TensorOptions().dtype(dtype).device(device));
  }

  template <class F>
  RandomState random_state(const F& argument, c10::Device device, bool meta) const {
    const auto options = at::TensorOptions().dtype(at::kLong).device(device);
    if (meta) return {at::empty({1}, options), at::empty({1}, options)};
    std::optional<at::Generator> generator;
    if (generator_ >= 0 && !argument(generator_).isNone()) generator = argument(generator_).toGenerator();
    return vendor_of(device.type()).random_state(generator, device);
  }

  /// The length of our first argument, the output.
  template <class F>
  c10::SymInt outputs(const F& argument) const {
    const at::Tensor& output = argument(sources_[0].argument).toTensor();
    return output.dim() == 0 ? c10::SymInt(1) : output.sym_size(0);
  }

  static Value scalar(Value::Kind kind, const c10::IValue& v) {
    switch (kind) {
      case Value::Kind::kInt:
        return v.isDouble() ? static_cast<std::int64_t>(v.toDouble()) : v.toInt();
      case Value::Kind::kFloat:
        return v.isInt() ? static_cast<double>(v.toInt()) : v.toDouble();
      default:
        return v.isInt() ? v.toInt() != 0 : v.toBool();
    }
  }

  const OpInfo& info_;
  c10::FunctionSchema upstream_;
  std::vector<Source> sources_;
  std::vector<std::string> names_;
  std::vector<bool> written_;
  int generator_ = -1;
  bool returns_list_ = false;  // Tensor[]
};

template <bool kMeta>
class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    plan_->call(stack, kMeta);
  }

 private:
  std::shared_ptr<const Plan> plan_;
};

template <bool kMeta>
torch::CppFunction boxed(c10::DispatchKey key, const std::shared_ptr<const Plan>& plan) {
  return torch::dispatch(key,
                         torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel<kMeta>>(plan)));
}

bool exists(const char* name) {
  for (const OpInfo& op : operators())
    if (std::string(op.name) == name) return true;
  return false;
}

}  // namespace

namespace {

void register_aliases(torch::Library& m, const std::string& library) {
  for (const Alias& alias : kAliases) {
    if (!exists(alias.op)) continue;
    const auto plan = std::make_shared<const Plan>(alias);
    const std::string& name = plan->upstream().name();
    if (c10::Dispatcher::singleton().findSchema({library + "::" + name, ""})) continue;
    m.def(torch::schema(alias.schema), {at::Tag::pt2_compliant_tag});
    for (const c10::DispatchKey key :
         {c10::DispatchKey::CPU, c10::DispatchKey::CUDA, c10::DispatchKey::PrivateUse1})
      m.impl(name.c_str(), boxed<false>(key, plan));
    m.impl(name.c_str(), boxed<true>(c10::DispatchKey::Meta, plan));
  }
}

}  // namespace

// Always ours, for the Python functions.
TORCH_LIBRARY(musaic_sgl, m) { register_aliases(m, "musaic_sgl"); }

// Upstream's namespace. Where upstream's package is installed it defines its operators itself, and would not load after
// us; musaic.torch then sets the variable.
TORCH_LIBRARY_FRAGMENT(sgl_kernel, m) {
  if (std::getenv("MUSAIC_KEEP_SGL_KERNEL") == nullptr) register_aliases(m, "sgl_kernel");
}

}  // namespace musaic::torch_adapter
