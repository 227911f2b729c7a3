/**
 * Owns: making the routes of rest/ and the streams of src/console reachable: the TLS server and what it follows, ending the
 * streams of VMIs that are gone.
 * Must not know: routes, websockets, the VMI loop.
 */
export { type Consoles, makeConsoles } from './console-parts.ts';
