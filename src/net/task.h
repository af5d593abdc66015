// A coroutine of the server. It runs on one thread, the one of its io_context, from its first line to its last; what
// another thread has for it comes through an inbox (completion_queue.h).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

namespace interlock::net {

// With the executor's own type instead of the type-erased one, which costs a quarter of a request.
using Executor = boost::asio::io_context::executor_type;

template <class T>
using Task = boost::asio::awaitable<T, Executor>;

inline constexpr boost::asio::use_awaitable_t<Executor> use_task;

using SteadyTime = std::chrono::steady_clock::time_point;

}  // namespace interlock::net
