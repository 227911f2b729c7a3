/**
 * Owns: the life of the HTTP servers here: where they listen (TCP, both loopback addresses, a Unix socket), what one client may
 * cost, TLS, what becomes of a request to upgrade before it is a stream, draining and stopping with a deadline.
 * Must not know: websockets, routes, who may ask for what.
 */
export { HttpServer, type HttpServerState } from './http-server.ts';
export { type JsonAnswer, JsonSocket } from './json-socket.ts';
export { isAbsentHost, type ListenAddress, listenAt, loopbackHosts } from './listen.ts';
export { answerUpgrade, letGoSoon, type PlainAnswer, refuseUpgrade } from './upgrade.ts';
