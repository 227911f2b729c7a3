import type { Settings } from 'node:http2';

/** What one reader may have under way: one that does not read keeps so much, and the others go on. */
const streamWindowBytes = 512 * 1024;
/** Readers at once, and some more that have just ended. */
const maxStreams = 40;

/** Of both ends of both HTTP/2 connections, the one of TLS and the one within it. */
export const tunnelSettings = {
  settings: {
    enablePush: false,
    initialWindowSize: streamWindowBytes,
    maxConcurrentStreams: maxStreams,
  } satisfies Settings,
  /** Of the connection that is made of the outer stream: its window never keeps a reader waiting for another. */
  connectionWindowBytes: streamWindowBytes * maxStreams,
  /** Megabytes; a chunk for each reader. */
  maxSessionMemory: 64,
} as const;
