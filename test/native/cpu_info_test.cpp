#include "devices/cpu_info.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

using namespace warpconv;

namespace {

/** A folder that stands for / in a test. */
class Root {
 public:
  Root() : folder_(std::filesystem::temp_directory_path() / "warpconv-cpu-info-test") {
    std::filesystem::remove_all(folder_);
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() { std::filesystem::remove_all(folder_); }

  void write(const std::string& file, const std::string& content) const {
    const std::filesystem::path path = folder_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content << '\n';
  }
  unsigned processors() const { return usableProcessors(folder_.string()); }

 private:
  const std::filesystem::path folder_;
};

unsigned atMost(unsigned processors) { return std::min(processors, cpuInfo().cores); }

}  // namespace

TEST_CASE("a process uses the processors that it may run on, and no more than its control groups allow") {
  const Root root;
  CHECK(root.processors() == cpuInfo().cores);

  SUBCASE("a limit on the group itself, rounded down") {
    root.write("proc/self/cgroup", "0::/a.slice/b.scope");
    root.write("sys/fs/cgroup/a.slice/b.scope/cpu.max", "199000 100000");
    CHECK(root.processors() == 1);
    root.write("sys/fs/cgroup/a.slice/b.scope/cpu.max", "200000 100000");
    CHECK(root.processors() == atMost(2));
    root.write("sys/fs/cgroup/a.slice/b.scope/cpu.max", "100 100000");
    CHECK(root.processors() == 1);
  }
  SUBCASE("the least of all groups above it") {
    root.write("proc/self/cgroup", "0::/a/b");
    root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000");
    root.write("sys/fs/cgroup/a/cpu.max", "100000 100000");
    CHECK(root.processors() == 1);
  }
  SUBCASE("in a container the mount is the container's own group") {
    root.write("proc/self/cgroup", "0::/");
    root.write("sys/fs/cgroup/cpu.max", "150000 100000");
    CHECK(root.processors() == 1);
  }
  SUBCASE("version 1") {
    root.write("proc/self/cgroup", "4:cpu,cpuacct:/docker/1");
    root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000");
    root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
    CHECK(root.processors() == 1);
    root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
    CHECK(root.processors() == cpuInfo().cores);
  }
  SUBCASE("what is no limit, or says nothing") {
    root.write("proc/self/cgroup", "0::/a\nnonsense");
    for (const char* content : {"max 100000", "", "nonsense", "100000", "100000 0"}) {
      root.write("sys/fs/cgroup/a/cpu.max", content);
      CHECK(root.processors() == cpuInfo().cores);
    }
  }
}
