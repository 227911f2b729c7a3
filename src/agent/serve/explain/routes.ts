import type { ExplainError, Key } from '../../../api/index.ts';

/** What is asked for over HTTP. */
export type ExplainRequest =
  | { readonly kind: 'list' }
  | { readonly kind: 'report'; readonly namespace: string; readonly name: string; readonly key: Key }
  | { readonly kind: 'state' }
  | { readonly kind: 'labels' }
  | {
      readonly kind: 'refused';
      readonly httpStatus: 400 | 404 | 405;
      readonly code: ExplainError['code'];
      readonly message: string;
    };

const longestTarget = 1024;
const validName = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;
const whatThereIs = 'there is GET /why, GET /why/<namespace>/<name>, GET /labels and GET /state';

/** Total: whatever came in has an answer. */
export function parseExplainRequest(method: string, target: string): ExplainRequest {
  if (method !== 'GET' && method !== 'HEAD') {
    return refused(405, 'METHOD_NOT_ALLOWED', `${clean(method)} is not possible here: ${whatThereIs}`);
  }
  if (target.length > longestTarget) return refused(400, 'BAD_REQUEST', 'the address is too long');
  const parts = pathOf(target);
  if (!parts) return refused(400, 'BAD_REQUEST', 'the address cannot be read');
  const [first, namespace, name, ...more] = parts;
  if (first === 'state' && parts.length === 1) return { kind: 'state' };
  if (first === 'labels' && parts.length === 1) return { kind: 'labels' };
  if (first === 'why' && parts.length === 1) return { kind: 'list' };
  if (first !== 'why' || namespace === undefined || name === undefined || more.length > 0) {
    return refused(404, 'NOT_FOUND', `there is nothing at this address: ${whatThereIs}`);
  }
  if (!validName.test(namespace) || !validName.test(name)) {
    return refused(400, 'BAD_REQUEST', 'a namespace and a name are lower case letters, digits, "-" and "."');
  }
  return { kind: 'report', namespace, name, key: `${namespace}/${name}` };
}

function pathOf(target: string): string[] | undefined {
  try {
    const [path = ''] = target.split(/[?#]/, 1);
    return path.split('/').filter(Boolean).map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

function refused(httpStatus: 400 | 404 | 405, code: ExplainError['code'], message: string): ExplainRequest {
  return { kind: 'refused', httpStatus, code, message };
}

function clean(method: string): string {
  return method.replace(/[^A-Z]/g, '').slice(0, 16) || 'this';
}
