// What torch asks of a device's runtime: a guard (one device, one stream), generators and the hooks of CUDA.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "memory.h"

namespace pretended {

// Of device "cuda" to all who ask; CPU kernels draw from the generator inside.
struct Generator final : c10::GeneratorImpl {
  at::Generator inside;
  explicit Generator(at::Generator from)
      : GeneratorImpl(here(), c10::DispatchKeySet(c10::DispatchKey::CUDA)), inside(std::move(from)) {}
  void set_current_seed(uint64_t seed) override { inside.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { inside.set_offset(offset); }
  uint64_t get_offset() const override { return inside.get_offset(); }
  uint64_t current_seed() const override { return inside.current_seed(); }
  uint64_t seed() override { return const_cast<at::Generator&>(inside).seed(); }
  void set_state(const c10::TensorImpl& state) override { inside.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inside.unsafeGetGeneratorImpl()->get_state();
  }
  Generator* clone_impl() const override { return new Generator(inside.clone()); }
};
inline at::Generator new_generator(uint64_t seed) {
  return at::make_generator<Generator>(at::detail::createCPUGenerator(seed));
}
inline const at::Generator& default_generator() {
  static at::Generator one = new_generator(c10::default_rng_seed_val);
  return one;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device getDevice() const override { return here(); }
  c10::Device exchangeDevice(c10::Device to) const override { setDevice(to); return here(); }
  void setDevice(c10::Device to) const override {
    TORCH_CHECK(to.index() <= 0, "CUDA error: invalid device ordinal (", to, " of one device)");
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, here()); }
  c10::Stream getDefaultStream(c10::Device to) const override { return getStream(to); }
  c10::Stream getStreamFromGlobalPool(c10::Device to, bool) const override { return getStream(to); }
  c10::Stream getNewStream(c10::Device to, int) const override { return getStream(to); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  // All is done in order when it is asked for, so that events have nothing to wait for.
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { ledger().wait("stream"); }
  void synchronizeEvent(void*) const override { ledger().wait("event"); }
  void synchronizeDevice(const c10::DeviceIndex) const override { ledger().wait("device"); }
};

struct Hooks final : at::CUDAHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  void deviceSynchronize(c10::DeviceIndex) const override { ledger().wait("device"); }
  at::Allocator* getCUDADeviceAllocator() const override { return &device_memory(); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
  bool isPinnedPtr(const void* p) const override { return ledger().is_pinned(p); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return new_generator(c10::default_rng_seed_val); }
};

// torch keeps the hooks that it found when it was imported, a class without members; giving that object the functions
// of ours is the only way in that needs no other build of torch.
inline void install_hooks() {
  static_assert(sizeof(Hooks) == sizeof(void*) && sizeof(at::CUDAHooksInterface) == sizeof(void*));
  static Hooks ours;
  auto* theirs = const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks());
  std::memcpy(static_cast<void*>(theirs), static_cast<const void*>(&ours), sizeof(void*));
}

}  // namespace pretended
