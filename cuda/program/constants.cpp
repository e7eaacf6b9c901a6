#include "cuda/program/constants.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "divide.h"

namespace warpconv::cuda {
namespace {

/** Smaller pieces are gathered before they are copied: each copy of its own takes some 10 us. */
constexpr int64_t kLeastCopied = int64_t{1} << 16;

/** Copies pieces to a block, those that are small together. */
class Bringer {
 public:
  Bringer(Queue& queue, char* block) : queue_(queue), block_(block) {}

  /** `offset` is that of the piece before and its bytes, rounded up. */
  Status add(const HostBytes& piece, int64_t offset) {
    if (piece.bytes >= kLeastCopied) return queue_.uploadAll(piece.data, block_ + offset, piece.bytes);
    const auto end = static_cast<int64_t>(gathered_.size());
    if (gathered_.empty()) {
      first_ = offset;
    } else if (offset - first_ != roundUp(end, DeviceMemory::kAlignment) || end >= kLeastCopied) {
      if (Status status = flush(); !status.isOk()) return status;
      first_ = offset;
    }
    gathered_.resize(static_cast<size_t>(offset - first_ + piece.bytes));
    std::memcpy(gathered_.data() + (offset - first_), piece.data, static_cast<size_t>(piece.bytes));
    return {};
  }
  Status flush() {
    if (gathered_.empty()) return {};
    const Status status = queue_.uploadAll(gathered_.data(), block_ + first_, static_cast<int64_t>(gathered_.size()));
    gathered_.clear();
    return status;
  }

 private:
  Queue& queue_;
  char* const block_;
  std::vector<char> gathered_;
  /** Where it belongs */
  int64_t first_ = 0;
};

}  // namespace

Result<DeviceMemory> bringTogether(Queue& queue, std::span<const HostBytes> pieces,
                                   std::vector<const void*>& addresses) {
  int64_t all = 0;
  for (const HostBytes& piece : pieces) all += roundUp(piece.bytes, DeviceMemory::kAlignment);
  Result<DeviceMemory> block = queue.device().allocate(all);
  if (!block.isOk()) return block;
  char* const first = static_cast<char*>(block.value().data());
  Bringer bringer(queue, first);
  int64_t offset = 0;
  for (const HostBytes& piece : pieces) {
    addresses.push_back(piece.bytes == 0 ? nullptr : first + offset);
    if (piece.bytes == 0) continue;
    if (Status status = bringer.add(piece, offset); !status.isOk()) return status;
    offset += roundUp(piece.bytes, DeviceMemory::kAlignment);
  }
  if (Status status = bringer.flush(); !status.isOk()) return status;
  return block;
}

Result<PlacedConstants> Constants::place(std::span<const HostBytes> wanted) {
  const std::lock_guard lock(mutex_);
  if (Status status = bringMissing(wanted); !status.isOk()) return status;
  PlacedConstants placed;
  for (const HostBytes& one : wanted) {
    const auto found = placed_.find({one.data, one.bytes});
    placed.addresses.push_back(found == placed_.end() ? nullptr : found->second.address);
    if (found == placed_.end()) continue;
    const auto& block = found->second.block;
    if (std::ranges::find(placed.blocks, block) == placed.blocks.end()) placed.blocks.push_back(block);
  }
  return placed;
}

Status Constants::bringMissing(std::span<const HostBytes> wanted) {
  std::vector<HostBytes> missing;
  std::set<Key> keys;
  for (const HostBytes& one : wanted) {
    const Key key{one.data, one.bytes};
    if (one.bytes > 0 && !placed_.contains(key) && keys.insert(key).second) missing.push_back(one);
  }
  if (missing.empty()) return {};
  std::vector<const void*> addresses;
  Result<DeviceMemory> brought = bringTogether(queue_, missing, addresses);
  if (!brought.isOk()) return brought.status();
  const auto block = std::make_shared<const DeviceMemory>(std::move(brought.value()));
  for (size_t i = 0; i < missing.size(); ++i) {
    placed_.insert({{missing[i].data, missing[i].bytes}, {addresses[i], block}});
  }
  return {};
}

int64_t Constants::bytes() const {
  const std::lock_guard lock(mutex_);
  std::set<const DeviceMemory*> blocks;
  int64_t total = 0;
  for (const auto& [key, placed] : placed_) {
    if (blocks.insert(placed.block.get()).second) total += placed.block->bytes();
  }
  return total;
}

void Constants::trim() {
  const std::lock_guard lock(mutex_);
  std::map<const DeviceMemory*, long> here;
  for (const auto& [key, placed] : placed_) ++here[placed.block.get()];
  std::erase_if(placed_, [&](const auto& entry) {
    long& count = here[entry.second.block.get()];
    if (entry.second.block.use_count() > count) return false;
    // What remains of the block goes with it.
    --count;
    return true;
  });
}

}  // namespace warpconv::cuda
