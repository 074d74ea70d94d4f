#include "musaic/check.h"

#include "backends/backend.h"

namespace musaic {
namespace {

std::string dims_to_string(std::initializer_list<Dim*> dims) {
  std::string s = "[";
  const char* separator = "";
  for (const Dim* d : dims) {
    s += separator;
    s += d->name();
    if (d->bound()) s += "=" + std::to_string(d->value());
    separator = ", ";
  }
  return s + "]";
}

/// First and one-past-last byte that a view can touch.
struct Extent {
  const char* begin;
  const char* end;
};

Extent extent_of(const Tensor& t) {
  const char* base = t.data_as<const char>();
  if (t.numel() == 0) return {base, base};
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < t.ndim(); ++i) {
    const std::int64_t reach = (t.size(i) - 1) * t.stride(i);
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t item = size_bytes(t.dtype());
  return {base + low * item, base + (high + 1) * item};
}

bool same_view(const Tensor& a, const Tensor& b) {
  if (a.data() != b.data() || a.dtype() != b.dtype() || a.ndim() != b.ndim()) return false;
  for (int i = 0; i < a.ndim(); ++i)
    if (a.size(i) != b.size(i) || (a.size(i) > 1 && a.stride(i) != b.stride(i))) return false;
  return true;
}

}  // namespace

void Check::fail(const char* argument, const std::string& got, const std::string& expected) const {
  throw Error(op_, argument, got, expected);
}

Check::Argument Check::tensor(const char* name, const Tensor& t) {
  if (!t) fail(name, "no tensor", "a tensor");
  if (t.data() == nullptr && t.numel() > 0) fail(name, "null data", "memory for its elements");
  if (device_from_ == nullptr) {
    device_from_ = name;
    device_ = t.device();
  } else if (t.device() != device_) {
    fail(name, "device " + to_string(t.device()), to_string(device_) + " (from " + device_from_ + ")");
  }
  if (device_.type != DeviceType::kCpu) {
    const std::string lacking = lacks_dtype(device_, t.dtype());
    if (!lacking.empty()) fail(name, "dtype " + to_string(t.dtype()), "another: " + lacking);
  }
  return Argument(this, name, t);
}

void Check::Argument::fail(const std::string& got, const std::string& expected) const {
  check_->fail(name_, got, expected);
}

Check::Argument& Check::Argument::dtype(std::initializer_list<DType> allowed) {
  for (const DType& d : allowed)
    if (d == t_.dtype()) return *this;
  std::string names;
  for (const DType& d : allowed) names += (names.empty() ? "" : ", ") + to_string(d);
  fail("dtype " + to_string(t_.dtype()), allowed.size() > 1 ? "one of " + names : names);
}

Check::Argument& Check::Argument::same_dtype(const char* other_name, const Tensor& other) {
  if (t_.dtype() != other.dtype())
    fail("dtype " + to_string(t_.dtype()), to_string(other.dtype()) + " (from " + other_name + ")");
  return *this;
}

Check::Argument& Check::Argument::shape(std::initializer_list<Dim*> dims) {
  // Texts are made on failure only: a call's checks are part of a decode step's time.
  const auto got = [&] { return "shape " + shape_to_string(t_.shape(), t_.ndim()); };
  if (t_.ndim() != static_cast<int>(dims.size()))
    fail(got(), std::to_string(dims.size()) + " dimensions " + dims_to_string(dims));
  int i = 0;
  for (Dim* d : dims) {
    if (!d->bound()) {
      d->value_ = t_.size(i);
      d->from_ = name_;
      d->from_dim_ = i;
    } else if (t_.size(i) != d->value_) {
      std::string from = std::string(" (") + d->name_ + " from " + d->from_;
      if (d->from_dim_ >= 0) from += ", dim " + std::to_string(d->from_dim_);
      fail(got(), dims_to_string(dims) + from + ")");
    }
    ++i;
  }
  return *this;
}

Check::Argument& Check::Argument::same_shape(const char* other_name, const Tensor& other) {
  bool same = t_.ndim() == other.ndim();
  for (int i = 0; same && i < t_.ndim(); ++i) same = t_.size(i) == other.size(i);
  if (!same)
    fail("shape " + shape_to_string(t_.shape(), t_.ndim()),
         shape_to_string(other.shape(), other.ndim()) + " (from " + other_name + ")");
  return *this;
}

Check::Argument& Check::Argument::rank(int at_least, int at_most) {
  if (t_.ndim() < at_least || t_.ndim() > at_most)
    fail("shape " + shape_to_string(t_.shape(), t_.ndim()),
         std::to_string(at_least) + (at_most > at_least ? " to " + std::to_string(at_most) : "") +
             " dimensions");
  return *this;
}

Check::Argument& Check::Argument::last_dim_contiguous() {
  const int last = t_.ndim() - 1;
  if (last >= 0 && t_.size(last) > 1 && t_.stride(last) != 1)
    fail("stride " + std::to_string(t_.stride(last)) + " in the last dimension", "1");
  return *this;
}

Check::Argument& Check::Argument::contiguous() {
  if (!t_.is_contiguous())
    fail("strides " + shape_to_string(t_.strides(), t_.ndim()) + " for shape " +
             shape_to_string(t_.shape(), t_.ndim()),
         "a contiguous tensor");
  return *this;
}

Check::Argument& Check::Argument::aligned() {
  const auto address = reinterpret_cast<std::uintptr_t>(t_.data());
  const auto item = static_cast<std::uintptr_t>(size_bytes(t_.dtype()));
  if (address % item != 0)
    fail("an address " + std::to_string(address % item) + " bytes off",
         "a multiple of the element's " + std::to_string(item) + " bytes");
  return *this;
}

void Check::no_overlap(const char* a_name, const Tensor& a, const char* b_name, const Tensor& b,
                       bool same_is_fine) {
  if (same_is_fine && same_view(a, b)) return;
  const Extent x = extent_of(a), y = extent_of(b);
  if (x.begin < y.end && y.begin < x.end)
    fail(a_name, std::string("memory that overlaps ") + b_name,
         same_is_fine ? "memory of its own, or the very same view" : "memory of its own");
}

}  // namespace musaic
