#include "cuda/program/scratch.h"

#include <atomic>
#include <utility>

namespace warpconv::cuda {
namespace {

uint64_t nextNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

int64_t bytesOf(const std::shared_ptr<const Block>& block) { return block == nullptr ? 0 : block->memory.bytes(); }

}  // namespace

Scratch::Lease::~Lease() {
  if (scratch_ != nullptr) scratch_->giveBack(*this);
}

Result<Scratch::Lease> Scratch::take(const Bytes& bytes) {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [this] { return !spare_.empty() && !isClearing_; });
  const size_t set = spare_.back();
  Status grown = growAll(bytes, set);
  if (!grown.isOk() && spare_.size() < kPorts) {
    // There may be enough once what others use can go: nobody takes anything until then.
    isClearing_ = true;
    returned_.wait(lock, [this] { return spare_.size() == kPorts; });
    isClearing_ = false;
    returned_.notify_all();
    grown = growAll(bytes, set);
  }
  if (!grown.isOk()) return grown;
  const bool isAlone = spare_.size() == kPorts;
  std::erase(spare_, set);
  return Lease(*this, arena_, ports_[set], set, isAlone);
}

Status Scratch::growAll(const Bytes& bytes, size_t set) {
  if (Status status = grow(arena_, bytes.arena); !status.isOk()) return status;
  return grow(ports_[set], bytes.ports);
}

Status Scratch::grow(Shared& block, int64_t bytes) {
  if (block != nullptr && block->memory.bytes() >= bytes) return {};
  if (block.use_count() == 1) block.reset();
  Result<DeviceMemory> memory = device_.allocate(bytes);
  if (!memory.isOk()) return memory.status();
  block = std::make_shared<const Block>(Block{std::move(memory.value()), nextNumber()});
  return {};
}

void Scratch::giveBack(Lease& lease) {
  {
    const std::lock_guard lock(mutex_);
    lease.arena_.reset();
    lease.ports_.reset();
    spare_.push_back(lease.set_);
  }
  returned_.notify_all();
}

void Scratch::trim() {
  const std::lock_guard lock(mutex_);
  if (arena_.use_count() == 1) arena_.reset();
  for (Shared& ports : ports_) {
    if (ports.use_count() == 1) ports.reset();
  }
}

int64_t Scratch::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t total = bytesOf(arena_);
  for (const Shared& ports : ports_) total += bytesOf(ports);
  return total;
}

}  // namespace warpconv::cuda
