#include "cuda/host/tables.h"

namespace warpconv::cuda {

int64_t Tables::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [key, table] : tables_) {
    if (const auto there = table.lock()) total += there->bytes();
  }
  return total;
}

std::shared_ptr<const DeviceMemory> Tables::find(const Key& key) {
  const auto found = tables_.find(key);
  return found == tables_.end() ? nullptr : found->second.lock();
}

Result<std::shared_ptr<const DeviceMemory>> Tables::add(const Key& key, const void* contents, int64_t bytes) {
  std::erase_if(tables_, [](const auto& entry) { return entry.second.expired(); });
  Result<DeviceMemory> memory = queue_.device().allocate(bytes);
  if (!memory.isOk()) return memory.status();
  if (Status status = queue_.uploadAll(contents, memory.value()); !status.isOk()) return status;
  auto table = std::make_shared<const DeviceMemory>(std::move(memory.value()));
  tables_.insert_or_assign(key, table);
  return table;
}

}  // namespace warpconv::cuda
