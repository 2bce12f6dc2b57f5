// A pretended CUDA device for a torch that was built without CUDA. A tensor of device "cuda" lies in host memory; an
// operator on it runs the kernel of the CPU on aliases, after the refusals that a GPU would make: tensors of two
// devices, a synchronisation while a graph is recorded, more memory than there is.
//
// What cannot be seen so: the numerics of CUDA's kernels, races between streams, fragmentation, speed.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <set>

#include "runtime.h"

namespace pretended {
using at::Tensor;
using Stack = torch::jit::Stack;

// ---- the same bytes under the other device

Tensor view_of(c10::Storage storage, const Tensor& like, c10::DispatchKey key) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  impl->_set_conj(like.is_conj());
  impl->_set_neg(like.is_neg());
  return made;
}

c10::Storage storage_over(at::DataPtr bytes, int64_t size, at::Allocator* allocator) {
  return {c10::Storage::use_byte_size_t(), size_t(size), std::move(bytes), allocator, /*resizable=*/true};
}

Tensor to_host(const Tensor& t) {
  auto* keeps = new c10::Storage(t.storage());
  at::DataPtr bytes(keeps->mutable_data(), keeps, [](void* p) { delete static_cast<c10::Storage*>(p); }, at::kCPU);
  auto size = int64_t(t.storage().nbytes());
  return view_of(storage_over(std::move(bytes), size, at::GetCPUAllocator()), t, c10::DispatchKey::CPU);
}

// A kernel's result becomes memory of the device, which is counted until its last tensor goes.
at::DataPtr counted(const c10::Storage& storage) {
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

Tensor to_device(const Tensor& t) {
  auto size = int64_t(t.storage().nbytes());
  return view_of(storage_over(counted(t.storage()), size, &device_memory()), t, c10::DispatchKey::CUDA);
}

// ---- any operator

bool among(const std::set<std::string>& names, const std::string& name) { return names.count(name) > 0; }
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

void any(const c10::OperatorHandle& op, Stack* stack) { Call(op, stack).run(); }

// ---- operators that concern memory itself

using Dtype = std::optional<at::ScalarType>;
using Unused = std::optional<at::Layout>;
const c10::DispatchKeySet CUDA_KEY(c10::DispatchKey::CUDA);

Tensor empty(at::IntArrayRef size, Dtype dtype, Unused, std::optional<at::Device>, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &device_memory(), CUDA_KEY, c10::dtype_or_default(dtype), format);
}
Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, Dtype dtype, Unused, std::optional<at::Device>,
                     std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &device_memory(), CUDA_KEY, c10::dtype_or_default(dtype));
}

// A copy between the devices waits, unless it was asked not to and the host's side is pinned.
Tensor& copy_(Tensor& self, const Tensor& from, bool non_blocking) {
  if (self.is_cuda() != from.is_cuda()) {
    const Tensor& on_host = self.is_cuda() ? from : self;
    if (!non_blocking || !ledger().is_pinned(on_host.const_data_ptr()))
      ledger().wait(self.is_cuda() ? "copy from the CPU" : "copy to the CPU");
  }
  Tensor to = self.is_cuda() ? to_host(self) : self;
  at::native::copy_(to, from.is_cuda() ? to_host(from) : from, false);
  return self;
}
Tensor copy_and_resize(const Tensor& from, const Tensor& to) {
  Tensor out = to;
  return out.resize_(from.sizes()).copy_(from);
}
at::Scalar number(const Tensor& self) {
  ledger().wait("a number to the CPU");
  return at::_local_scalar_dense(to_host(self));
}
Tensor& set_empty(Tensor& self) {
  return at::native::set_storage_cpu_(self, storage_over(device_memory().allocate(0), 0, &device_memory()), 0, {0}, {});
}
int64_t plain_attention(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, double, bool,
                        std::optional<double>, bool) { return 0; }  // SDPBackend::math

// ---- what Python reads and sets

// The same memory, which it does not keep alive: a recorded graph knows addresses and owns nothing.
Tensor unowned(const Tensor& t) {
  at::DataPtr bytes(t.storage().mutable_data(), here());
  return view_of(storage_over(std::move(bytes), int64_t(t.storage().nbytes()), &device_memory()), t, c10::DispatchKey::CUDA);
}
int64_t figure(c10::string_view name) {
  auto& now = ledger();
  return name == "held" ? now.held : name == "peak" ? now.peak : now.limit;
}
void set_limit(int64_t bytes) { ledger().limit = bytes; }
void reset_peak() { ledger().peak = ledger().held; }
void set_capturing(bool on) { ledger().capturing = on; }
void wait_for(std::string what) { ledger().wait(what); }
at::Generator drawn_from() { return static_cast<Generator*>(default_generator().unsafeGetGeneratorImpl())->inside; }
void seed(int64_t value) { drawn_from().set_current_seed(value); }
Tensor rng_state() { return drawn_from().get_state(); }
void set_rng_state(const Tensor& state) { drawn_from().set_state(state); }
std::vector<std::string> waits() {  // what waited, as often as it did, since the last call
  std::vector<std::string> out;
  std::lock_guard<std::mutex> guard(ledger().lock);
  for (auto& [what, count] : ledger().syncs) out.insert(out.end(), count, what);
  ledger().syncs.clear();
  return out;
}

struct Installed {
  Installed() {
    c10::SetAllocator(c10::kCUDA, &device_memory(), 100);
    install_hooks();
    static c10::impl::DeviceGuardImplRegistrar registrar(c10::kCUDA, new Guard());
  }
} installed;

}  // namespace pretended

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&pretended::any>()); }
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", pretended::empty);
  m.impl("empty_strided", pretended::empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", at::native::resize_);
  m.impl("set_.source_Storage", static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("set_", pretended::set_empty);
  m.impl("copy_", pretended::copy_);
  m.impl("_copy_from_and_resize", pretended::copy_and_resize);
  m.impl("_local_scalar_dense", pretended::number);
  m.impl("_fused_sdp_choice", pretended::plain_attention);
}
TORCH_LIBRARY(fakecuda, m) {
  m.def("unowned(Tensor t) -> Tensor", pretended::unowned);
  m.def("figure(str name) -> int", pretended::figure);
  m.def("set_limit(int bytes) -> ()", pretended::set_limit);
  m.def("reset_peak() -> ()", pretended::reset_peak);
  m.def("set_capturing(bool on) -> ()", pretended::set_capturing);
  m.def("wait_for(str what) -> ()", pretended::wait_for);
  m.def("waits() -> str[]", pretended::waits);
  m.def("seed(int value) -> ()", pretended::seed);
  m.def("rng_state() -> Tensor", pretended::rng_state);
  m.def("set_rng_state(Tensor state) -> ()", pretended::set_rng_state);
}
