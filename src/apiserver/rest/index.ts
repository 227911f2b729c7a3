/**
 * Owns: requests and answers: paths, bodies, tokens, limits, watches, discovery, sub-resources, Status.
 * Must not know: the controllers, the rules of admission, how the store keeps things.
 */

export type { ApiContext } from './api-context.ts';
export { createApp } from './app.ts';
export { TokenAuthenticator } from './auth.ts';
export { podReachOf } from './guest-port.ts';
export { defaultLimits, type RequestLimits } from './limits.ts';
export { serveUpgrade } from './upgrade.ts';
