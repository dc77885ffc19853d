// What a well-formed trace is, checked on traces in memory.
#include "trace/validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "trace/checker.h"
#include "trace/example_traces.h"
#include "trace/limits.h"

namespace spillway {
namespace {

// The complaint about the tiny trace after `change`, "good" where there is none.
std::string after(const std::function<void(Trace&)>& change) {
  Trace trace = tiny_trace();
  change(trace);
  const Status status = validate_trace(trace, "here");
  return status ? "good" : status.error().message;
}

TEST(ValidateTrace, AcceptsWhatRealTracesHold) {
  EXPECT_EQ(after([](Trace&) {}), "good");
  // An unused tensor, an activation and an input that are updated in place, times under faults that
  // are shorter than without.
  EXPECT_EQ(after([](Trace& t) { t.tensors.push_back({4096, false, false}); }), "good");
  EXPECT_EQ(after([](Trace& t) { t.kernels[1].writes.push_back(2); }), "good");
  EXPECT_EQ(after([](Trace& t) { t.kernels[1].writes.push_back(1); }), "good");
  EXPECT_EQ(after([](Trace& t) { t.kernels[0].input_fault_ns = 1; }), "good");
}

TEST(ValidateTrace, NamesThePlaceOfAMistake) {
  EXPECT_EQ(after([](Trace& t) { t.kernels[2].reads[1] = 5; }),
            "here: kernels[2].reads[1]: tensor 5 does not exist; the trace has 5 tensors");
  EXPECT_EQ(after([](Trace& t) { t.kernels[1].reads.push_back(1); }),
            "here: kernels[1].reads[2]: tensor 1 is listed twice in the reads of this kernel");
  EXPECT_EQ(after([](Trace& t) { t.kernels[1].duration_ns = -7; }),
            "here: kernels[1].duration_ns: -7 ns; must be 1 to 9007199254740992 ns");
  EXPECT_EQ(after([](Trace& t) { t.kernels[1].all_fault_ns = -1; }),
            "here: kernels[1].all_fault_ns: -1 ns; must be 0 to 9007199254740992 ns");
  EXPECT_EQ(after([](Trace& t) { t.tensors[3].bytes = 0; }),
            "here: tensors[3].bytes: 0; must be 1 to 1125899906842624");
  EXPECT_EQ(after([](Trace& t) { t.kernels.clear(); }),
            "here: kernels: none; an iteration has at least one");
  EXPECT_EQ(after([](Trace& t) { t.kernels[0].name = "a\x01"; }),
            "here: kernels[0].name: not UTF-8 text without control characters");
  EXPECT_EQ(after([](Trace& t) { t.model = std::string(kMaxTextBytes + 1, 'm'); }),
            "here: model: 65537 bytes long; at most 65536 are allowed");
}

TEST(ValidateTrace, RefusesImpossibleLives) {
  EXPECT_EQ(after([](Trace& t) { t.kernels[2].writes.push_back(4); }),
            "here: kernels[2].writes[1]: tensor 4 is scratch of kernels[0]; scratch belongs to one "
            "kernel");
  EXPECT_EQ(after([](Trace& t) { t.kernels[2].writes.push_back(1); }),
            "here: kernels[2].writes[1]: tensor 1 was read by kernels[0] before this first write: "
            "a cycle in lifetimes; only a persistent tensor lives into the next iteration");
  EXPECT_EQ(after([](Trace& t) { t.tensors[0].scratch = true; }),
            "here: tensors[0]: both persistent and scratch; scratch dies with its kernel");
}

TEST(PlainText, IsUtf8WithoutControlCharacters) {
  for (const char* good : {"", "Conv2d", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(is_plain_text(good)) << good;
  }
  // A line end, DEL, a stray continuation, a cut sequence, an overlong slash, a surrogate, beyond
  // U+10FFFF, a byte that never occurs.
  for (const char* bad : {"\n", "\x7f", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xff", "\xe2\x82"}) {
    EXPECT_FALSE(is_plain_text(bad)) << bad;
  }
}

}  // namespace
}  // namespace spillway
