// The image's bill of materials: CycloneDX 1.6 as JSON. The same parts and time give the same bytes.
import { createHash } from 'node:crypto';

/** Debian's own files say all of it (`/usr/share/doc/<package>/copyright`); these are the licences of the libraries themselves. */
const debianLicenses = {
  'gcc-12-base': 'GPL-3.0-or-later WITH GCC-exception-3.1',
  libc6: 'LGPL-2.1-or-later',
  'libgcc-s1': 'GPL-3.0-or-later WITH GCC-exception-3.1',
  'libstdc++6': 'GPL-3.0-or-later WITH GCC-exception-3.1',
  iproute2: 'GPL-2.0-or-later',
  libbpf1: 'LGPL-2.1-only OR BSD-2-Clause',
  libbsd0: 'BSD-3-Clause',
  libcap2: 'BSD-3-Clause OR GPL-2.0-only',
  libedit2: 'BSD-3-Clause',
  libelf1: 'LGPL-3.0-or-later OR GPL-2.0-or-later',
  libgmp10: 'LGPL-3.0-or-later OR GPL-2.0-or-later',
  libjansson4: 'MIT',
  libmd0: 'BSD-3-Clause',
  libmnl0: 'LGPL-2.1-or-later',
  libnftables1: 'GPL-2.0-only',
  libnftnl11: 'GPL-2.0-or-later',
  libtinfo6: 'X11-distribute-modifications-variant',
  libxtables12: 'GPL-2.0-only',
  nftables: 'GPL-2.0-only',
  zlib1g: 'Zlib',
  haproxy: 'GPL-2.0-or-later AND LGPL-2.1-only',
  libcrypt1: 'LGPL-2.1-or-later',
  libgcrypt20: 'LGPL-2.1-or-later',
  'libgpg-error0': 'LGPL-2.1-or-later',
  'liblua5.3-0': 'MIT',
  'liblz4-1': 'BSD-2-Clause',
  liblzma5: 'LicenseRef-public-domain',
  'libopentracing-c-wrapper0': 'Apache-2.0',
  libopentracing1: 'Apache-2.0',
  'libpcre2-8-0': 'BSD-3-Clause',
  libssl3: 'Apache-2.0',
  libsystemd0: 'LGPL-2.1-or-later',
  libzstd1: 'BSD-3-Clause OR GPL-2.0-only',
  libacl1: 'LGPL-2.1-or-later',
  libselinux1: 'libselinux-1.0',
  tar: 'GPL-3.0-or-later',
};

const purlPart = (text) => text.split('/').map(encodeURIComponent).join('/');

/** `sha512-…` as package-lock.json has it → hexadecimal digits. */
const hexOf = (integrity) => Buffer.from(integrity.slice('sha512-'.length), 'base64').toString('hex');

const component = ({ type = 'library', name, version, license, purl, hash, ...more }) => ({
  type,
  'bom-ref': purl,
  name,
  version,
  ...(hash && { hashes: [hash] }),
  licenses: [/[ (]|^LicenseRef-/.test(license) ? { expression: license } : { license: { id: license } }],
  ...more,
  purl,
});

function debianComponent({ name, version, sha256 }, arch) {
  const purl = `pkg:deb/debian/${purlPart(name)}@${purlPart(version)}?arch=${arch}&distro=debian-12`;
  const hash = { alg: 'SHA-256', content: sha256 };
  return component({ name, version, license: debianLicenses[name], purl, hash });
}

/** The CPE: by it those who look for known faults find Node.js and what is linked into it. */
function nodeComponent({ name, version, integrity }) {
  const purl = `pkg:npm/${name}@${version}`;
  const cpe = `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`;
  const hash = { alg: 'SHA-512', content: hexOf(integrity) };
  return component({ type: 'platform', name: 'node.js', version, license: 'MIT', cpe, purl, hash });
}

/** A package that another one brings in its own folder has no checksum of its own. */
function npmComponent({ name, version, license, folder }, lock) {
  const [group, base] = name.startsWith('@') ? name.split('/') : [undefined, name];
  const { integrity } = lock.packages[folder.replace(/\/$/, '')] ?? lock.packages[`node_modules/${name}`] ?? {};
  const purl = `pkg:npm/${group ? `${encodeURIComponent(group)}/` : ''}${base}@${version}`;
  const hash = integrity && { alg: 'SHA-512', content: hexOf(integrity) };
  return component({ ...(group && { group }), name: base, version, license, purl, hash });
}

/** A number of the document that follows from what is in it: the same parts have the same one. */
function serialOf(components) {
  const digits = createHash('sha256').update(JSON.stringify(components)).digest('hex');
  const variant = ((Number.parseInt(digits.charAt(16), 16) & 0x3) | 0x8).toString(16);
  const groups = [
    digits.slice(0, 8),
    digits.slice(8, 12),
    `5${digits.slice(13, 16)}`,
    variant + digits.slice(17, 20),
    digits.slice(20, 32),
  ];
  return `urn:uuid:${groups.join('-')}`;
}

/**
 * @param {{ own: { name: string, version: string, license: string }, arch: string, timeSeconds: number,
 *   debian: readonly { name: string, version: string, sha256: string }[],
 *   node: { name: string, version: string, integrity: string },
 *   npm: readonly { name: string, version: string, license: string, folder: string }[],
 *   lock: { packages: Record<string, { integrity?: string }> } }} parts `lock`: package-lock.json; `timeSeconds`: since 1970
 */
export function billOfMaterials({ own, arch, timeSeconds, debian, node, npm, lock }) {
  const root = `pkg:generic/${own.name}@${own.version}?arch=${arch}`;
  const components = [
    ...debian.map((each) => debianComponent(each, arch)),
    nodeComponent(node),
    ...npm.map((each) => npmComponent(each, lock)),
  ];
  // One package may be there twice, in two folders, with one version.
  const unique = [...new Map(components.map((each) => [each.purl, each])).values()];
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: serialOf([root, ...unique]),
    version: 1,
    metadata: {
      timestamp: new Date(timeSeconds * 1000).toISOString(),
      component: component({
        type: 'container',
        name: own.name,
        version: own.version,
        license: own.license,
        purl: root,
      }),
    },
    components: unique,
    dependencies: [
      { ref: root, dependsOn: unique.map(({ purl }) => purl) },
      ...unique.map(({ purl }) => ({ ref: purl, dependsOn: [] })),
    ],
  };
}
