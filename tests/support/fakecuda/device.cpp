// A pretended CUDA device for a torch that was built without CUDA. A tensor of device "cuda" lies in host memory; an
// operator on it runs the kernel of the CPU on aliases, after the refusals that a GPU would make: tensors of two
// devices, a synchronisation while a graph is recorded, more memory than there is.
//
// What cannot be seen so: the numerics of CUDA's kernels, races between streams, fragmentation, speed.
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "fallback.h"

namespace pretended {
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
// A storage of another size at another address, as FSDP frees and takes the weights of a layer.
void resize_storage(const Tensor& t, int64_t bytes) {
  auto* storage = t.storage().unsafeGetStorageImpl();
  const size_t kept = std::min<size_t>(bytes, storage->nbytes());
  auto fresh = device_memory().allocate(bytes);
  if (kept) std::memcpy(fresh.get(), storage->data(), kept);
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(bytes);
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
  m.def("resize_storage(Tensor t, int bytes) -> ()", pretended::resize_storage);
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
