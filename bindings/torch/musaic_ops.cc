// torch.ops.musaic.*: every operator of the list, by its schema.
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include "bindings/torch/adapter.h"

namespace musaic::torch_adapter {
namespace {

struct Operator {
  const OpInfo* info;
  std::vector<std::string> names;
  std::vector<bool> written;

  explicit Operator(const OpInfo& op) : info(&op) {
    const c10::FunctionSchema schema = torch::jit::parseSchema(op.schema);
    TORCH_CHECK(schema.arguments().size() == op.parameters.size(), op.name,
                ": schema and declaration differ");
    for (const c10::Argument& argument : schema.arguments()) {
      names.push_back(argument.name());
      written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    }
  }

  Value scalar(const c10::IValue& v, std::size_t i) const {
    switch (info->parameters[i]) {
      case Value::Kind::kInt:
        return v.toInt();
      case Value::Kind::kFloat:
        return v.isInt() ? static_cast<double>(v.toInt()) : v.toDouble();
      default:
        return v.toBool();
    }
  }
};

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(const OpInfo& op) : op_(op) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const std::size_t n = op_.names.size();
    c10::SmallVector<Value, 8> values(n);
    std::optional<c10::Device> device;
    try {
      for (std::size_t i = 0; i < n; ++i) {
        const c10::IValue& v = torch::jit::peek(*stack, i, n);
        if (op_.info->parameters[i] != Value::Kind::kTensor) {
          values[i] = op_.scalar(v, i);
        } else if (v.isTensor() && v.toTensor().defined()) {
          const at::Tensor& t = v.toTensor();
          if (!device) device = t.device();
          values[i] = view_of(t, op_.written[i], op_.info->name, op_.names[i].c_str());
        }
      }
    } catch (const Error& e) {
      raise(e);
    }
    run(*op_.info, values.data(), device.value_or(c10::Device(c10::kCPU)));
    torch::jit::drop(*stack, n);
  }

 private:
  Operator op_;
};

class MetaKernel final : public c10::OperatorKernel {
 public:
  explicit MetaKernel(const OpInfo& op) : op_(op) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const std::size_t n = op_.names.size();
    std::vector<Value> values(n);
    MemorylessViews views;
    bool known = true;
    try {
      for (std::size_t i = 0; i < n && known; ++i) {
        const c10::IValue& v = torch::jit::peek(*stack, i, n);
        if (op_.info->parameters[i] == Value::Kind::kTensor) {
          if (v.isTensor() && v.toTensor().defined())
            known = views.view_of(v.toTensor(), op_.info->name, op_.names[i].c_str(), &values[i].tensor);
        } else if (v.isSymInt() || v.isSymFloat() || v.isSymBool()) {
          known = false;
        } else {
          values[i] = op_.scalar(v, i);
        }
      }
    } catch (const Error& e) {
      raise(e);
    }
    if (known) check_only(*op_.info, values.data());
    torch::jit::drop(*stack, n);
  }

 private:
  Operator op_;
};

template <class K>
torch::CppFunction boxed(c10::DispatchKey key, const OpInfo& op) {
  return torch::dispatch(key, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<K>(op)));
}

}  // namespace

TORCH_LIBRARY(musaic, m) {
  for (const OpInfo& op : operators()) {
    m.def(torch::schema(op.schema), {at::Tag::pt2_compliant_tag});
    for (const c10::DispatchKey key :
         {c10::DispatchKey::CPU, c10::DispatchKey::CUDA, c10::DispatchKey::PrivateUse1})
      m.impl(op.name, boxed<Kernel>(key, op));
    m.impl(op.name, boxed<MetaKernel>(c10::DispatchKey::Meta, op));
  }
  // Does nothing: what a call costs at least.
  m.def(torch::schema("_empty(Tensor! out, Tensor input, Tensor? weight, float eps=1e-6) -> ()"),
        {at::Tag::pt2_compliant_tag});
  m.impl("_empty", torch::dispatch(c10::DispatchKey::CPU,
                                   [](at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                      double) -> void {}));
}

}  // namespace musaic::torch_adapter
