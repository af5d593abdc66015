// Boost.Asio's own code, compiled here once for everybody who links net/.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
