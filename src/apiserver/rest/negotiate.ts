import { ApiError } from '../errors.ts';

export type Encoding = 'json' | 'yaml';

/** In which form a client takes the answer. */
export type Representation =
  | { readonly kind: 'plain'; readonly encoding: Encoding }
  | { readonly kind: 'table' }
  | { readonly kind: 'partial' };

interface MediaRange {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export function parseAccept(accept: string | undefined): MediaRange[] {
  return (accept ?? '*/*')
    .split(',')
    .map((part) => {
      const [type = '', ...rest] = part.split(';').map((item) => item.trim());
      const parameters = rest.map((item) => item.split('=', 2));
      return {
        type: type.toLowerCase(),
        parameters: Object.fromEntries(parameters.map(([key = '', value = '']) => [key.toLowerCase(), value])),
      };
    })
    .filter(({ type }) => type !== '');
}

/** The first form in `Accept` that this server has. Throws ApiError NOT_ACCEPTABLE. */
export function negotiate(accept: string | undefined): Representation {
  for (const range of parseAccept(accept)) {
    const found = representationOf(range);
    if (found) return found;
  }
  const text =
    'only the following media types are accepted: application/json, application/yaml, application/json;as=Table, ' +
    'application/json;as=PartialObjectMetadata (protobuf is not supported)';
  throw new ApiError('NOT_ACCEPTABLE', text);
}

function representationOf({ type, parameters }: MediaRange): Representation | undefined {
  if (type === 'application/yaml') return { kind: 'plain', encoding: 'yaml' };
  if (type !== 'application/json' && type !== '*/*' && type !== 'application/*') return undefined;
  if (parameters.as === undefined) return { kind: 'plain', encoding: 'json' };
  if (parameters.g !== 'meta.k8s.io' || !['v1', 'v1beta1'].includes(parameters.v ?? '')) return undefined;
  if (parameters.as === 'Table') return { kind: 'table' };
  return parameters.as.startsWith('PartialObjectMetadata') ? { kind: 'partial' } : undefined;
}
