// Memory of the pretended device: host memory that is counted, limited and, while it is new, poisoned.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace pretended {

inline c10::Device here() { return {c10::kCUDA, 0}; }

// What the tests read. One lock for all: speed is no aim.
struct Ledger {
  std::mutex lock;
  int64_t held = 0, peak = 0, limit = int64_t(80) << 30;
  bool capturing = false;
  std::map<std::string, int64_t> syncs;   // by what waited
  std::map<const char*, size_t> pinned;   // start -> bytes

  void take(int64_t bytes) {
    std::lock_guard<std::mutex> guard(lock);
    TORCH_CHECK_WITH(OutOfMemoryError, held + bytes <= limit, "CUDA out of memory. Tried to allocate ", bytes,
                     " bytes; GPU 0 has ", limit, " bytes, of which ", held, " are in use (pretended)");
    held += bytes;
    peak = std::max(peak, held);
  }
  void give(int64_t bytes) {
    std::lock_guard<std::mutex> guard(lock);
    held -= bytes;
  }
  // The host waits for the device, which a stream that is recorded does not allow.
  void wait(const std::string& what) {
    std::lock_guard<std::mutex> guard(lock);
    TORCH_CHECK(!capturing, "CUDA error: operation not permitted when stream is capturing (", what, ")");
    syncs[what]++;
  }
  bool is_pinned(const void* p) {
    std::lock_guard<std::mutex> guard(lock);
    auto after = pinned.upper_bound(static_cast<const char*>(p));
    if (after == pinned.begin()) return false;
    auto& [start, bytes] = *std::prev(after);
    return static_cast<const char*>(p) < start + bytes;
  }
};

inline Ledger& ledger() {
  static auto* one = new Ledger;  // never destroyed: blocks are freed while the process ends
  return *one;
}

inline void* aligned(size_t bytes) {
  void* p = nullptr;
  TORCH_CHECK(posix_memalign(&p, 64, bytes ? bytes : 1) == 0, "the host has no memory left");
  return p;
}

struct DeviceAllocator final : c10::Allocator {
  struct Block { void* start; int64_t bytes; };
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    ledger().give(block->bytes);
    std::free(block->start);
    delete block;
  }
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, here()};
    ledger().take(bytes);
    void* start = aligned(bytes);
    std::memset(start, 0xFF, bytes);  // nan as a float, -1 as an integer: nobody may read it
    return {start, new Block{start, int64_t(bytes)}, &release, here()};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

struct PinnedAllocator final : c10::Allocator {
  static void release(void* start) {
    {
      std::lock_guard<std::mutex> guard(ledger().lock);
      ledger().pinned.erase(static_cast<char*>(start));
    }
    std::free(start);
  }
  c10::DataPtr allocate(size_t bytes) override {
    void* start = aligned(bytes);
    std::lock_guard<std::mutex> guard(ledger().lock);
    ledger().pinned[static_cast<char*>(start)] = std::max<size_t>(bytes, 1);
    return {start, start, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

inline DeviceAllocator& device_memory() { static DeviceAllocator one; return one; }
inline PinnedAllocator& pinned_memory() { static PinnedAllocator one; return one; }

}  // namespace pretended
