// Any operator of the pretended device: the kernel of the CPU on aliases, after a GPU's refusals.
#pragma once
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <set>

#include "runtime.h"

namespace pretended {
using at::Tensor;
using Stack = torch::jit::Stack;

// ---- the same bytes under the other device

inline Tensor view_of(c10::Storage storage, const Tensor& like, c10::DispatchKey key) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  impl->_set_conj(like.is_conj());
  impl->_set_neg(like.is_neg());
  return made;
}

inline c10::Storage storage_over(at::DataPtr bytes, int64_t size, at::Allocator* allocator) {
  return {c10::Storage::use_byte_size_t(), size_t(size), std::move(bytes), allocator, /*resizable=*/true};
}

inline Tensor to_host(const Tensor& t) {
  auto* keeps = new c10::Storage(t.storage());
  at::DataPtr bytes(keeps->mutable_data(), keeps, [](void* p) { delete static_cast<c10::Storage*>(p); }, at::kCPU);
  auto size = int64_t(t.storage().nbytes());
  return view_of(storage_over(std::move(bytes), size, at::GetCPUAllocator()), t, c10::DispatchKey::CPU);
}

// A kernel's result becomes memory of the device, which is counted until its last tensor goes.
inline at::DataPtr counted(const c10::Storage& storage) {
  struct Kept { c10::Storage storage; int64_t bytes; };
  auto size = int64_t(storage.nbytes());
  ledger().take(size);
  auto* kept = new Kept{storage, size};
  auto release = [](void* p) {
    auto* one = static_cast<Kept*>(p);
    ledger().give(one->bytes);
    delete one;
  };
  return {kept->storage.mutable_data(), kept, release, here()};
}

inline Tensor to_device(const Tensor& t) {
  auto size = int64_t(t.storage().nbytes());
  return view_of(storage_over(counted(t.storage()), size, &device_memory()), t, c10::DispatchKey::CUDA);
}

// ---- any operator

inline bool among(const std::set<std::string>& names, const std::string& name) { return names.count(name) > 0; }
// The host waits for a number or for the shape of the result.
const std::set<std::string> WAITS = {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim",
    "aten::unique_consecutive", "aten::equal", "aten::is_nonzero", "aten::bincount", "aten::histc",
    "aten::repeat_interleave", "aten::multinomial"};
// Indices may lie on the CPU, at the cost of a copy.
const std::set<std::string> INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
    "aten::_unsafe_index", "aten::_unsafe_index_put"};
const std::set<std::string> TRANSFERS = {"aten::_to_copy", "aten::copy", "aten::lift_fresh"};

class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack* stack)
      : op_(op), stack_(stack), schema_(op.schema()), name_(schema_.name()) {}

  void run() {
    if (among(WAITS, name_)) ledger().wait(name_);
    auto arguments = schema_.arguments().size();
    auto first = stack_->size() - arguments;
    for (size_t i = 0; i < arguments; i++) take((*stack_)[first + i], schema_.arguments()[i]);
    refuse_host_alone();
    soften((*stack_)[first], *stack_, first);
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    for (auto& [own, alias] : pairs_) follow(own, alias);
    auto results = schema_.returns().size();
    for (size_t i = stack_->size() - results; i < stack_->size(); i++) give((*stack_)[i]);
  }

 private:
  void take(c10::IValue& value, const c10::Argument& argument) {
    const auto* alias = argument.alias_info();
    bool written = alias != nullptr && alias->isWrite();
    if (value.isTensor()) {
      value = host(value.toTensor(), argument, written, /*listed=*/false);
    } else if (value.isTensorList()) {
      c10::List<Tensor> out;
      for (const Tensor& t : value.toTensorVector()) out.push_back(host(t, argument, written, true));
      value = out;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> out;
      for (std::optional<Tensor> t : value.toOptionalTensorList())
        out.push_back(t && t->defined() ? std::optional<Tensor>(index(*t, argument)) : std::nullopt);
      value = out;
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
      value = c10::Device(at::kCPU);
    } else if (argument.type()->str() == "Generator?") {
      const at::Generator& asked = value.isNone() ? default_generator() : value.toGenerator();
      TORCH_CHECK(asked.device().is_cuda(), "Expected a 'cuda' device type for generator but found '",
                  asked.device().type(), "' (", name_, ")");
      value = static_cast<Generator*>(asked.unsafeGetGeneratorImpl())->inside;
    }
  }

  Tensor index(const Tensor& t, const c10::Argument& argument) {
    if (t.is_cuda() && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte)) ledger().wait("index by a mask");
    if (!t.is_cuda() && t.dim() > 0) ledger().wait("index of the CPU");
    return host(t, argument, false, true);
  }

  Tensor host(const Tensor& t, const c10::Argument& argument, bool written, bool listed) {
    if (!t.defined() || t.is_meta()) return t;
    if (t.is_cuda()) {
      pairs_.emplace_back(t, to_host(t));
      return pairs_.back().second;
    }
    // CUDA takes a number of the CPU beside its own tensors, as an operand and not as a place to write to or in a list.
    bool number = t.dim() == 0 && !written && (!listed || name_.find("_foreach_") != std::string::npos);
    bool allowed = number || among(TRANSFERS, name_) || (listed && among(INDEXED, name_));
    TORCH_CHECK(allowed, "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and ",
                t.device(), "! (", name_, ", argument ", argument.name(), " of shape ", t.sizes(), ")");
    return t;
  }

  // `cpu.index(cuda)`: the tensor that is indexed, the first, must be the device's.
  void refuse_host_alone() {
    if (!among(INDEXED, name_)) return;
    auto& self = (*stack_)[stack_->size() - schema_.arguments().size()];
    bool own = !pairs_.empty() && self.toTensor().is_same(pairs_[0].second);
    TORCH_CHECK(own, "indices should be either on cpu or on the same device as the indexed tensor (cpu)");
  }

  // CUDA has a softmax from half precision to float32, which the CPU has not.
  void soften(c10::IValue& self, Stack& stack, size_t first) {
    if ((name_ == "aten::_softmax" || name_ == "aten::_log_softmax") && stack[first + 2].toBool()) {
      self = self.toTensor().to(at::kFloat);
      stack[first + 2] = false;
    }
  }

  // An `out=` or an in-place operator may have resized what it was given.
  void follow(const Tensor& own, const Tensor& alias) {
    auto* storage = own.storage().unsafeGetStorageImpl();
    if (alias.storage().data() != own.storage().data()) {
      storage->set_data_ptr(counted(alias.storage()));
      storage->set_nbytes(alias.storage().nbytes());
    }
    if (!alias.sizes().equals(own.sizes()) || !alias.strides().equals(own.strides()))
      own.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
  }

  void give(c10::IValue& value) {
    if (value.isTensor()) {
      value = device(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> out;
      for (const Tensor& t : value.toTensorVector()) out.push_back(device(t));
      value = out;
    }
  }

  // What was given comes back as the tensor it was, a view of it as a view.
  Tensor device(const Tensor& t) {
    if (!t.defined() || !t.is_cpu()) return t;
    for (auto& [own, alias] : pairs_) {
      if (t.is_same(alias)) return own;
      if (t.storage().data() && t.storage().data() == alias.storage().data())
        return view_of(own.storage(), t, c10::DispatchKey::CUDA);
    }
    return to_device(t);
  }

  const c10::OperatorHandle& op_;
  Stack* stack_;
  const c10::FunctionSchema& schema_;
  const std::string& name_;
  std::vector<std::pair<Tensor, Tensor>> pairs_;  // a tensor of the device and its alias
};

inline void any(const c10::OperatorHandle& op, Stack* stack) { Call(op, stack).run(); }

}  // namespace pretended
