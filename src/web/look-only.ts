import type { IncomingMessage } from 'node:http';

/** To who has the token for looking only, and wants to act. */
export const lookOnly = 'this address is for looking only: who may act has another one (virt-node url)';

/**
 * Makes of `access=view` what stays so (src/console): a viewer could else take the console over later. False: the stream that is
 * asked for takes keys, and nothing was changed.
 */
export function onlyLooksOn(request: IncomingMessage): boolean {
  const { url = '' } = request;
  const at = url.indexOf('?');
  const query = new URLSearchParams(at < 0 ? '' : url.slice(at));
  // Of several the agent reads the first; one alone leaves no doubt.
  const [access, ...more] = query.getAll('access');
  if (access !== 'view' || more.length > 0) return false;
  query.set('access', 'view-only');
  request.url = `${url.slice(0, at)}?${query}`;
  return true;
}
