/**
 * Owns: how many connections a server holds and which one ends when another comes; what every server does with a request to upgrade
 * before it is a stream: an answer as any other request's, a refusal in words, the end of the connection afterwards.
 * Must not know: websockets, routes, who may ask.
 */
export * from './connection-limit.ts';
export { answerUpgrade, letGoSoon, type PlainAnswer, refuseUpgrade } from './upgrade.ts';
