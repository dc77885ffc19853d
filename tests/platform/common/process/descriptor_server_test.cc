// Descriptors that go from process to process, with what has to be known of them.
#include "platform/common/process/descriptor_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace spillway {
namespace {

constexpr std::uint64_t kNumber = 7;
constexpr std::uint32_t kMany = 300;  // more than one message holds

// A pipe's end, in which its place stands.
std::optional<SharedDescriptor> find(std::uint64_t number, std::uint32_t place) {
  std::array<int, 2> ends{};
  if (number != kNumber || place >= kMany || ::pipe(ends.data()) != 0) {
    return std::nullopt;
  }
  const Descriptor into(ends[1]);
  EXPECT_EQ(::write(into.get(), &place, sizeof place), ssize_t{sizeof place});
  return SharedDescriptor{.descriptor = Descriptor(ends[0]), .words = {number, place, kMany}};
}

const std::string& served() {
  static const std::string name = [] {
    std::string made = fmt::format("spillway-test-{}", ::getpid());
    const Status serves = serve_descriptors(
        made, [] {}, find);
    EXPECT_TRUE(serves) << serves.error().message;
    return made;
  }();
  return name;
}

TEST(DescriptorServer, GivesOneAfterTheOther) {
  const Result<DescriptorClient> client = DescriptorClient::ask(served(), kNumber);
  ASSERT_TRUE(client) << client.error().message;
  for (std::uint32_t place = 0; place < kMany; ++place) {
    const Result<SharedDescriptor> next = client->next();
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_THAT(next->words, ::testing::ElementsAre(kNumber, place, kMany));
    std::uint32_t stands = 0;
    EXPECT_EQ(::read(next->descriptor.get(), &stands, sizeof stands), ssize_t{sizeof stands});
    EXPECT_EQ(stands, place);
  }
  EXPECT_FALSE(client->next());
}

// One that goes away in the middle is none of the next one's business.
TEST(DescriptorServer, SaysWhatIsNotThere) {
  { const Result<DescriptorClient> impatient = DescriptorClient::ask(served(), kNumber); }
  const Result<DescriptorClient> client = DescriptorClient::ask(served(), kNumber + 1);
  ASSERT_TRUE(client);
  const Result<SharedDescriptor> none = client->next();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "it is not there any more");
  const Result<DescriptorClient> nobody = DescriptorClient::ask("spillway-test-nobody", kNumber);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().message, "it has ended");
}

// The child of one that has ended keeps nobody waiting.
TEST(DescriptorServer, ChildrenOfAForkDoNotServe) {
  std::array<int, 2> back{};
  ASSERT_EQ(::pipe(back.data()), 0);
  const std::string name = fmt::format("spillway-test-child-{}", ::getpid());
  const pid_t server = ::fork();
  if (server == 0) {
    ::alarm(20);
    const bool serves = serve_descriptors(
                            name, [] {}, find)
                            .has_value();
    if (::fork() == 0) {
      ::close(back[1]);
      ::alarm(20);
      ::pause();
    }
    ::_exit(serves ? 0 : 1);
  }
  ::close(back[1]);
  int status = -1;
  ASSERT_EQ(::waitpid(server, &status, 0), server);
  EXPECT_EQ(status, 0);
  char byte = 0;
  EXPECT_EQ(::read(back[0], &byte, 1), 0);  // both have closed their end
  ::close(back[0]);
  const Result<DescriptorClient> client = DescriptorClient::ask(name, kNumber);
  EXPECT_FALSE(client);
}

}  // namespace
}  // namespace spillway
