/**
 * Owns: a guest's byte streams (serial console, screen, USB) joined to websockets: handshake, sessions that are taken over,
 * shared and resumed, scrollback, back-pressure, keep-alive, close codes (docs/console-protocol.md; in upstream:
 * pkg/virt-handler/rest/console.go).
 * Must not know: Kubernetes, VMIs, launchers, TLS, who may connect.
 */
export type { ConsolePast } from './past.ts';
export { defaultStreamOptions, type StreamOptions } from './stream-options.ts';
export { type Access, isView, type StreamKind, StreamRefusal, type StreamRequest } from './stream-request.ts';
export { StreamServer } from './stream-server.ts';
