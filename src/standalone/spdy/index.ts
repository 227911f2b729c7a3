/**
 * Owns: SPDY/3.1 as far as kubectl speaks it: frames, header blocks, streams of a client.
 * Must not know: what the streams are for, Kubernetes' objects, HTTP.
 */
export { SpdySession, type SpdyStream } from './session.ts';
