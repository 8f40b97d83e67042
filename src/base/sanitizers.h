// Which sanitizers this is compiled with: g++ and clang say it in different ways.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define HD_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define HD_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HD_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define HD_THREAD_SANITIZER 1
#endif
#endif

#ifndef HD_ADDRESS_SANITIZER
#define HD_ADDRESS_SANITIZER 0
#endif
#ifndef HD_THREAD_SANITIZER
#define HD_THREAD_SANITIZER 0
#endif
