import type { Access, StreamKind, StreamRequest } from '../../../console/index.ts';
import { badRequest } from './errors.ts';

/** What of a stream's request stands in its query. */
export type StreamWish = Pick<StreamRequest, 'access' | 'resume'>;

const accesses: readonly Access[] = ['take', 'take-if-free', 'view'];

/** Throws RestError BAD_REQUEST. Unknown parameters are ignored, as upstream does. */
export function streamWish(kind: StreamKind, query: URLSearchParams): StreamWish {
  return { access: accessOf(kind, query), ...resumeOf(kind, query) };
}

/** `access` is ours and goes before upstream's `preserveSession`, which virt-api always sends for vnc. */
function accessOf(kind: StreamKind, query: URLSearchParams): Access {
  const given = query.get('access');
  if (given !== null) {
    const access = accesses.find((each) => each === given);
    if (!access) throw badRequest(`access must be one of ${accesses.join(', ')}`);
    if (kind === 'usbredir' && access === 'view')
      throw badRequest('a USB channel cannot be shared: access=view is not possible');
    return access;
  }
  const isPreserving = kind === 'vnc' && parseGoBool(query.get('preserveSession') ?? '') === true;
  return isPreserving ? 'take-if-free' : 'take';
}

function resumeOf(kind: StreamKind, query: URLSearchParams): Pick<StreamRequest, 'resume'> {
  const line = query.get('line');
  const from = query.get('from');
  if (line === null && from === null) return {};
  if (kind !== 'console') throw badRequest('only a console can be resumed: line and from are not possible here');
  if (line === null || !/^[A-Za-z0-9._-]{1,64}$/.test(line))
    throw badRequest('line must be the id that was told on attaching');
  if (from === null || !/^\d{1,15}$/.test(from)) throw badRequest('from must be a number of bytes');
  return { resume: { line, from: Number(from) } };
}

/** Go's strconv.ParseBool. */
export function parseGoBool(text: string): boolean | undefined {
  if (/^(1|t|T|true|TRUE|True)$/.test(text)) return true;
  return /^(0|f|F|false|FALSE|False)$/.test(text) ? false : undefined;
}
