import type { ExplainError, Key } from '../api/index.ts';

/** Why an address has no document, for who asks for it. */
export interface ExplainRefusal {
  readonly kind: 'refused';
  readonly httpStatus: 400 | 404 | 405;
  readonly code: ExplainError['code'];
  readonly message: string;
}

const longestTarget = 1024;
const validName = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/** The path of a request's target, with or without a query, in its parts. `decode` may throw for a part that cannot be read. */
export function explainPath(
  target: string,
  decode: (part: string) => string = (part) => part,
): { readonly kind: 'path'; readonly parts: readonly string[] } | ExplainRefusal {
  if (target.length > longestTarget) return refusal(400, 'BAD_REQUEST', 'the address is too long');
  try {
    const [path = ''] = target.split(/[?#]/, 1);
    return {
      kind: 'path',
      parts: path
        .split('/')
        .filter(Boolean)
        .map((part) => decode(part)),
    };
  } catch {
    return refusal(400, 'BAD_REQUEST', 'the address cannot be read');
  }
}

/** `whatThereIs`: the addresses that have a document. */
export function unknownAddress(whatThereIs: string): ExplainRefusal {
  return refusal(404, 'NOT_FOUND', `there is nothing at this address: there is ${whatThereIs}`);
}

/** The key of an object whose names came from outside. */
export function explainKey(
  namespace: string,
  name: string,
): { readonly kind: 'key'; readonly key: Key } | ExplainRefusal {
  if (validName.test(namespace) && validName.test(name)) return { kind: 'key', key: `${namespace}/${name}` };
  return refusal(400, 'BAD_REQUEST', 'a namespace and a name are lower case letters, digits, "-" and "."');
}

/** The same of an object without a namespace. */
export function explainClusterKey(name: string): { readonly kind: 'key'; readonly key: Key } | ExplainRefusal {
  if (validName.test(name)) return { kind: 'key', key: name };
  return refusal(400, 'BAD_REQUEST', 'a name is lower case letters, digits, "-" and "."');
}

function refusal(httpStatus: 400 | 404, code: ExplainError['code'], message: string): ExplainRefusal {
  return { kind: 'refused', httpStatus, code, message };
}
