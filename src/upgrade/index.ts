/**
 * Owns: what every server does with a request to upgrade before it is a stream: an answer as any other request's, a refusal in
 * words, the end of the connection afterwards, whatever the client does.
 * Must not know: websockets, routes, who may ask.
 */
export * from './answer-upgrade.ts';
export { letGoSoon } from './let-go.ts';
export * from './refuse-upgrade.ts';
