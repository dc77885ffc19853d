// Takes device memory past a budget in each way that the driver serves itself, beside some that is
// within it. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// 512 MiB in one handle, and then what the others give; all of it is given back.
void past_the_budget(const Device& device);
// 128 MiB, of which nothing is worth a line.
void a_little_past_the_budget(const Device& device);
// 384 MiB again and again, each given back before the next: never more at once.
void again_past_the_budget(const Device& device);
// The same as the first, and nothing within the budget.
void nothing_within_the_budget(const Device& device);
// So much that only the driver knows of.
void unseen_past_the_budget(const Device& device);

}  // namespace spillway::cuda::test
