// Which sanitizer a file is compiled with: compilers say it in ways of their own. Layer: base.
#pragma once

#if defined(__has_feature)
#define SPILLWAY_HAS_FEATURE(feature) __has_feature(feature)
#else
#define SPILLWAY_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_THREAD__) || SPILLWAY_HAS_FEATURE(thread_sanitizer)
#define SPILLWAY_THREAD_SANITIZER 1
#else
#define SPILLWAY_THREAD_SANITIZER 0
#endif

#if defined(__SANITIZE_ADDRESS__) || SPILLWAY_HAS_FEATURE(address_sanitizer)
#define SPILLWAY_ADDRESS_SANITIZER 1
#else
#define SPILLWAY_ADDRESS_SANITIZER 0
#endif
