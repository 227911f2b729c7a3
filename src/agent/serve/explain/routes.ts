import type { Key } from '../../../api/index.ts';
import { type ExplainRefusal, explainKey, explainPath, unknownAddress } from '../../../reconcile/index.ts';

/** What is asked for over HTTP. */
export type ExplainRequest =
  | { readonly kind: 'list' }
  | { readonly kind: 'report'; readonly key: Key }
  | { readonly kind: 'state' }
  | { readonly kind: 'labels' }
  | ExplainRefusal;

const whatThereIs = 'GET /why, GET /why/<namespace>/<name>, GET /labels and GET /state';

/** Total: whatever came in has an answer. */
export function parseExplainRequest(method: string, target: string): ExplainRequest {
  if (method !== 'GET' && method !== 'HEAD') {
    const message = `${clean(method)} is not possible here: there is ${whatThereIs}`;
    return { kind: 'refused', httpStatus: 405, code: 'METHOD_NOT_ALLOWED', message };
  }
  const path = explainPath(target, decodeURIComponent);
  if (path.kind === 'refused') return path;
  const [first, namespace, name, ...more] = path.parts;
  if (first === 'state' && path.parts.length === 1) return { kind: 'state' };
  if (first === 'labels' && path.parts.length === 1) return { kind: 'labels' };
  if (first === 'why' && path.parts.length === 1) return { kind: 'list' };
  if (first !== 'why' || namespace === undefined || name === undefined || more.length > 0) {
    return unknownAddress(whatThereIs);
  }
  const named = explainKey(namespace, name);
  return named.kind === 'key' ? { kind: 'report', key: named.key } : named;
}

function clean(method: string): string {
  return method.replace(/[^A-Z]/g, '').slice(0, 16) || 'this';
}
