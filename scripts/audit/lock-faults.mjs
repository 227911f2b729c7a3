// What is wrong with package-lock.json by itself, without asking anybody. Pure; a unit test runs it on this tree's own.

/** Licences that code of ours may stand beside, in SPDX's names. Others are a decision of people, who write it here. */
export const allowedLicenses = new Set([
  ...['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'CC0-1.0', 'ISC', 'MIT', 'Unlicense'],
  // js-yaml's reader of arguments: permissive, the licence of Python 2.
  'Python-2.0',
  // noVNC, whose files are shipped unchanged: its terms reach its own files, and no further.
  'MPL-2.0',
]);

/** Packages that run a program of theirs when they are installed, and what it does. */
export const installScripts = new Map([
  ['@bufbuild/buf', 'puts the program of this platform, a package of its own, in the place of a script'],
  ['classic-level', 'looks for its prebuilt binary, and compiles where it has none'],
  ['esbuild', 'puts the program of this platform, a package of its own, in the place of a script'],
  ['koffi', 'looks for its prebuilt binary, a package of its own, and compiles where it has none'],
  ['protobufjs', 'says when the version that a package asks for is written loosely'],
]);

/** `node_modules/a/node_modules/@b/c` → `@b/c`. */
export const packageName = (place) => place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length);

/** Empty: no licence is named. `(MIT OR Apache-2.0)` → both. */
const licensesIn = (expression) =>
  String(expression ?? '')
    .split(/[()\s]+/)
    .filter((word) => word !== '' && !['AND', 'OR'].includes(word));

/**
 * Whether an entry is for platforms on which nothing is built, tested or run by this project (not Linux with glibc on amd64 or arm64),
 * optional, and no part of what is shipped. A registry need not have those, so their checksums cannot be had everywhere: on such a
 * platform npm takes the registry's word.
 */
export function isElsewhere({ dev, optional, os = ['linux'], cpu = ['x64'] }, name) {
  const isOurs =
    os.includes('linux') && cpu.some((one) => ['x64', 'arm64'].includes(one)) && !/-musl(eabihf)?$/.test(name);
  return dev === true && optional === true && !isOurs;
}

const rules = {
  'no checksum: npm would install whatever it is given': ({ integrity }) =>
    !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''),
  'no licence': ({ license }) => licensesIn(license).length === 0,
  'its licence is not among those allowed': ({ license }) =>
    licensesIn(license).some((name) => !allowedLicenses.has(name)),
  'it names where it comes from: the registry that is set counts, and no other': ({ resolved }) =>
    resolved !== undefined,
  'its authors say that it is not to be used any more': ({ deprecated }) => deprecated !== undefined,
  'it runs a program when it is installed and is not listed as one that may': ({ hasInstallScript }, name) =>
    hasInstallScript === true && !installScripts.has(name),
};
/** Excused where nothing at all is known of a package. */
const unknownElsewhere = new Set(Object.keys(rules).slice(0, 2));

function faultsOf(name, entry) {
  const isUnknown = entry.integrity === undefined && entry.license === undefined && isElsewhere(entry, name);
  return Object.entries(rules)
    .filter(([fault, isBroken]) => isBroken(entry, name) && !(isUnknown && unknownElsewhere.has(fault)))
    .map(([fault]) => `${name} ${entry.version}: ${fault}`);
}

/** Direct dependencies whose version is a range, in package.json. */
function looseRanges({ dependencies = {}, devDependencies = {} }) {
  const exact = /^\d+\.\d+\.\d+(-[\w.]+)?$/;
  return Object.entries({ ...dependencies, ...devDependencies })
    .filter(([, version]) => !exact.test(version))
    .map(([name, version]) => `${name}: ${version} is no exact version`);
}

/**
 * Sentences, each of which begins with a package; none: all is well.
 * @param {{ packages: Record<string, Record<string, unknown>> }} lock package-lock.json
 * @param {{ dependencies?: Record<string, string>, devDependencies?: Record<string, string> }} own package.json
 * @returns {string[]}
 */
export function lockFaults(lock, own) {
  const places = Object.entries(lock.packages).filter(([place]) => place !== '');
  const named = new Set(places.map(([place]) => packageName(place)));
  const stale = [...installScripts.keys()].filter((name) => !named.has(name));
  return [
    ...places.flatMap(([place, entry]) => faultsOf(packageName(place), entry)),
    ...looseRanges(own),
    ...stale.map((name) => `${name}: listed as one that may run a program, and not used`),
  ];
}
