import { isRecord, memberAt } from '../base/index.ts';

/** Longest answer of a launcher that is read, in characters. */
const jsonLimit = 1024 * 1024;

/**
 * DomainStats (pkg/virt-launcher/virtwrap/stats/types.go), as a launcher answers. Undefined: the guest is vanishing. Throws RangeError for an answer that is too large, SyntaxError
 * for what is no such text.
 */
export function readDomainStats(json: string): Record<string, unknown> | undefined {
  if (json.length > jsonLimit) throw new RangeError(`an answer of ${json.length} characters is too large`);
  const stats: unknown = json === '' ? {} : JSON.parse(json);
  if (!isRecord(stats)) throw new SyntaxError('the statistics are no object');
  return typeof stats.Name === 'string' && stats.Name !== '' ? stats : undefined;
}

/** A figure of them; its `…Set` says whether the launcher knows it. Undefined: it does not. */
export function statOf(of: unknown, name: string): number | undefined {
  const value = memberAt(of, name);
  const isKnown = memberAt(of, `${name}Set`) === true;
  return isKnown && typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}
