import { cutName } from './cut-names.ts';

/** The longest name of an object. */
const longestName = 253;

/**
 * What a copy of a ControllerRevision may be called, the best name first: it is named after who has it, as upstream does (`renaming`: from whom, to
 * whom), and never as the original. `uid`: of who makes it.
 */
export function revisionNames(
  name: string,
  [from, to]: readonly [from: string, to: string],
  uid = '',
): readonly string[] {
  const changed = name.includes(from) ? name.replace(from, () => to) : `${to}-${name}`;
  const names = [changed, `${changed.slice(0, longestName - uid.length - 1)}-${uid}`];
  return names.map((each) => cutName(each, longestName)).filter((each) => each !== name);
}
