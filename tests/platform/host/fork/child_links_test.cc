// Who asks for the descriptor of its faults gets its own: known by the page that it is asked to
// touch and not by its number, which two may share. The children are the test's sockets.
#include "platform/host/fork/child_links.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace spillway::host {
namespace {

// A child's end of a link, as its thread has it.
class Child {
 public:
  explicit Child(const ChildLinks& links) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
    const LinkAddress& address = links.address();
    const auto* const name = reinterpret_cast<const sockaddr*>(&address.name);  // NOLINT
    EXPECT_EQ(::connect(socket_.get(), name, address.bytes), 0);
  }
  struct Heard {
    char what = 'n';  // nothing
    std::uint32_t page = 0;
    std::uint64_t written = 0;  // to the descriptor beside it, before it was given
  };
  Heard hear() {
    struct {
      char what;
      std::uint32_t page;
    } saying{};
    iovec bytes{.iov_base = &saying, .iov_len = sizeof(saying)};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
    msghdr header{};
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = room.data();
    header.msg_controllen = room.size();
    if (::recvmsg(socket_.get(), &header, MSG_DONTWAIT) != sizeof(saying)) {
      return {};
    }
    Heard heard{.what = saying.what, .page = saying.page};
    if (const cmsghdr* const beside = CMSG_FIRSTHDR(&header)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(beside), sizeof(fd));
      const Descriptor given(fd);
      EXPECT_EQ(::read(fd, &heard.written, sizeof(heard.written)), 8);
    }
    return heard;
  }
  void leave() { socket_ = Descriptor(); }

 private:
  Descriptor socket_;
};

// Stands for the descriptor that a child's faults come through.
Descriptor descriptor_of(std::uint64_t number) {
  return Descriptor(::eventfd(static_cast<unsigned>(number), 0));
}

TEST(ChildLinks, WhoTouchesAPageGetsTheDescriptorThatSaysSo) {
  ChildLinks links;
  Child one(links);
  Child other(links);
  links.serve();
  const Child::Heard first = one.hear();
  const Child::Heard second = other.hear();
  ASSERT_EQ(std::string({first.what, second.what}), "tt");
  ASSERT_NE(first.page, second.page);
  ASSERT_NE(first.page, kMarkPage);
  // They touch in the other order; both are this process.
  const Descriptor of_other = descriptor_of(2);
  const Descriptor of_one = descriptor_of(1);
  EXPECT_EQ(links.give(second.page, of_other.get()), ::getpid());
  EXPECT_EQ(links.give(first.page, of_one.get()), ::getpid());
  EXPECT_EQ(one.hear().written, 1U);
  EXPECT_EQ(other.hear().written, 2U);
  links.tell_all_is_given(of_other.get());
  EXPECT_EQ(one.hear().what, 'n');
  EXPECT_EQ(other.hear().what, 'a');
}

TEST(ChildLinks, APageNobodyWasAskedForGivesNothing) {
  ChildLinks links;
  Child child(links);
  links.serve();
  const Child::Heard asked = child.hear();
  const Descriptor its = descriptor_of(1);
  EXPECT_EQ(links.give(kMarkPage, its.get()), std::nullopt);
  EXPECT_EQ(links.give(asked.page + 1, its.get()), std::nullopt);
  EXPECT_NE(links.give(asked.page, its.get()), std::nullopt);
  EXPECT_EQ(links.give(asked.page, its.get()), std::nullopt);  // once
}

TEST(ChildLinks, WhereAllPagesAreTakenTheNextIsAskedWhenOneIsFree) {
  ChildLinks links;
  std::vector<Child> children;
  std::set<std::uint32_t> pages;
  for (std::uint32_t i = 1; i < kProbePages; ++i) {
    children.emplace_back(links);
    links.serve();
    pages.insert(children.back().hear().page);
  }
  EXPECT_EQ(pages.size(), kProbePages - 1);
  EXPECT_EQ(*pages.begin(), 1U);
  Child late(links);
  links.serve();
  EXPECT_EQ(late.hear().what, 'n');
  children.front().leave();
  links.serve();
  EXPECT_EQ(late.hear().what, 't');
}

}  // namespace
}  // namespace spillway::host
