// The addresses of hosts, asked for without blocking the thread.
//
//   (1) An address, and "localhost", is its own answer; nobody is asked.
//   (2) A name is asked for once at a time, and its answer is believed for `believed_for`. A failure is not remembered.
//   (3) Whoever waits stops waiting at its deadline. The system's resolver cannot be interrupted: it goes on, and its
//       answer serves the next one. An io_context that ends meanwhile waits for it.
//
// For one io_context and its thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/task.h"

namespace interlock::net {

class AddressBook {
 public:
    using Addresses = std::vector<boost::asio::ip::address>;
    static constexpr std::chrono::seconds believed_for{30};
    static constexpr std::size_t names_max = 1'000;  // Beyond these, what is old is forgotten.

    explicit AddressBook(const Executor& executor) : executor_(executor) {}

    // Not empty. The error is a sentence.
    Task<Result<Addresses, std::string>> find(std::string host, SteadyTime deadline);

    void clear() { entries_.clear(); }

 private:
    struct Entry;
    std::shared_ptr<Entry> ask(const std::string& host);
    void forget_old();

    Executor executor_;
    std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace interlock::net
