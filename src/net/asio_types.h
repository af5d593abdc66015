// Asio's types with the server's executor.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>

#include "net/task.h"

namespace interlock::net {

using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Executor>;
using TlsStream = boost::asio::ssl::stream<Socket>;
using Timer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;

inline constexpr SteadyTime never = SteadyTime::max();

}  // namespace interlock::net
