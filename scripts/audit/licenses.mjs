// docs/licenses.md: which package of package-lock.json has which licence.
import { packageName } from './lock-faults.mjs';

const head = `# Licences

Made by \`npm run audit -- --write\` from package-lock.json; a unit test compares the two. The words of the licences of what is in the agent's
image are in the image: \`/usr/share/doc/virt-handler/licenses.txt\`; of what is in the web page: \`third-party-licenses.txt\` beside it.
`;

/** Lines of one table: a licence, and all that have it. */
function table(entries) {
  const byLicense = new Map(entries.map(({ license }) => [license, []]));
  for (const entry of entries) byLicense.get(entry.license).push(entry);
  const rows = [...byLicense].sort(([a], [b]) => (a < b ? -1 : 1));
  const cell = (list) => [...new Set(list.map(({ name, version }) => `${name} ${version}`))].sort().join(', ');
  return ['| Licence | Packages |', '|---|---|', ...rows.map(([license, list]) => `| ${license} | ${cell(list)} |`)];
}

/**
 * @param {{ packages: Record<string, { version?: string, license?: string, dev?: boolean }> }} lock package-lock.json
 * @returns {string}
 */
export function licensesPage(lock) {
  const entries = Object.entries(lock.packages)
    .filter(([place]) => place !== '')
    .map(([place, { version, license = 'not known here: for other platforms', dev = false }]) => ({
      name: packageName(place),
      version,
      license,
      dev,
    }));
  const section = (title, isDev) => [`\n## ${title}\n`, ...table(entries.filter(({ dev }) => dev === isDev))];
  return `${[head.trimEnd(), ...section('At run time', false), ...section('For building and testing only', true)].join('\n')}\n`;
}
