/**
 * Owns: how many connections a listening server holds at once, and which one ends when another comes.
 * Must not know: protocols, and what makes a client one that is known.
 */
export * from './connection-limit.ts';
