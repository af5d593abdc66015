// TLS contexts: what both ends insist on is said here once. At least version 1.2, HTTP/1.1, resumed sessions.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/http_server.h"

namespace interlock::net {

// The error is a sentence for the operator; it names the file.
Result<std::unique_ptr<boost::asio::ssl::context>, std::string> make_server_tls(const TlsFiles& files);

// Believes the system's authorities, and those in ca_file unless it is empty.
Result<std::unique_ptr<boost::asio::ssl::context>, std::string> make_client_tls(const std::string& ca_file);

}  // namespace interlock::net
