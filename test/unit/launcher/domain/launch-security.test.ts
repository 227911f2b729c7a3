import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DomainSpecInput, VmiSpec } from '../../../../src/api/index.ts';
import { buildDomainXml, type ConverterContext } from '../../../../src/launcher/domain/index.ts';
import { shapedVmi } from '../../../../src/launcher/domain/vmi-shape.ts';
import { contextWith, lean, vmiWith } from './cases.ts';

const searched = ['/usr/share/OVMF'];
const efi = { sev: { code: '/cc.fd', vars: '/vars.fd' }, snp: '/snp.fd', tdx: '/tdx.fd', searched };
const onKvm = contextWith({ hypervisor: 'kvm', efi });
const plainEfi = { bootloader: { efi: { secureBoot: false } } };

const built = (domain: DomainSpecInput, spec: Partial<VmiSpec> = {}, context: ConverterContext = onKvm) =>
  buildDomainXml(vmiWith({ devices: lean, firmware: plainEfi, ...domain }, spec), context);

const refusals: readonly (readonly [string, RegExp, DomainSpecInput, Partial<VmiSpec>?, ConverterContext?])[] = [
  ['one without a kind', /^spec\.domain\.launchSecurity: names none of sev, snp, tdx/, { launchSecurity: {} }],
  ['two kinds', /: has sev and tdx; exactly one/, { launchSecurity: { sev: {}, tdx: {} } }],
  [
    'a guest of arm64',
    /guests of arm64 have none/,
    { launchSecurity: { sev: {} } },
    { architecture: 'arm64' },
    { ...onKvm, architecture: 'arm64' },
  ],
  [
    'an emulated guest',
    /launchSecurity \(snp\) of an emulated guest is not supported/,
    { launchSecurity: { snp: {} } },
    {},
    { ...onKvm, hypervisor: 'qemu' },
  ],
  ['one without EFI', /launchSecurity\.sev: needs EFI/, { launchSecurity: { sev: {} }, firmware: {} }],
  [
    'SEV with Secure Boot',
    /sev: Secure Boot needs SMM/,
    { launchSecurity: { sev: {} }, firmware: { bootloader: { efi: {} } } },
  ],
  ['TDX with SMM', /tdx: excludes spec\.domain\.features\.smm/, { launchSecurity: { tdx: {} }, features: { smm: {} } }],
  [
    'SNP with variables',
    /snp: its firmware keeps no variables/,
    { launchSecurity: { snp: {} }, firmware: { bootloader: { efi: { secureBoot: false, persistent: true } } } },
  ],
  ['a session that is no base64', /sev\.session: is not base64/, { launchSecurity: { sev: { session: '<x/>' } } }],
  ['a certificate that is no base64', /sev\.dhCert: is not base64/, { launchSecurity: { sev: { dhCert: 'ä' } } }],
];

for (const [what, message, domain, spec, context] of refusals) {
  test(`encrypted memory is refused in words of its field: ${what}`, () => {
    assert.throws(() => built(domain, spec, context), { message });
  });
}

test('firmware that is not there is named with its kind, its package and where it was looked for', () => {
  const without = contextWith({ hypervisor: 'kvm', efi: { searched } });
  const expected = { sev: 'ovmf', snp: 'ovmf-amdsev', tdx: 'ovmf-inteltdx' };
  for (const [kind, name] of Object.entries(expected)) {
    const message = `EFI OVMF rom for spec.domain.launchSecurity.${kind} missing in /usr/share/OVMF: package ${name} has it; install it`;
    assert.throws(() => built({ launchSecurity: { [kind]: {} } }, {}, without), { code: 'MISSING_FIRMWARE', message });
  }
});

test('a launch security of another form is refused before anything is made of it', () => {
  const shapes: readonly (readonly [unknown, RegExp])[] = [
    ['sev', /spec\.domain\.launchSecurity: must be an object/],
    [{ sev: true }, /launchSecurity\.sev: must be an object/],
    [{ sev: { policy: { encryptedState: 'yes' } } }, /policy\.encryptedState: must be true or false/],
    [{ sev: { session: 5 } }, /sev\.session: must be/],
  ];
  for (const [launchSecurity, message] of shapes) {
    assert.throws(() => shapedVmi(vmiWith({ launchSecurity } as DomainSpecInput)), { message });
  }
});

test('the ROM of a network device is not read into encrypted memory, and is where a plain guest boots from it', () => {
  const spec = { networks: [{ name: 'net', pod: {} }] };
  const devices = { ...lean, interfaces: [{ name: 'net', masquerade: {}, bootOrder: 1 }] };
  assert.match(built({ devices, launchSecurity: { sev: {} } }, spec), /<boot order="1"\/>\s*<rom enabled="no"\/>/);
  assert.doesNotMatch(built({ devices, firmware: {} }, spec), /<rom/);
});

test('a guest of another architecture than the machine’s is refused, and so is a machine without a converter', () => {
  const on = (architecture: string, of: string) => () =>
    built({ firmware: {} }, { architecture: of }, contextWith({ architecture }));
  assert.throws(on('amd64', 's390x'), {
    code: 'UNSUPPORTED_FIELD',
    message: /^spec\.architecture s390x .*only amd64 guests/,
  });
  assert.throws(on('arm64', 'amd64'), {
    code: 'UNSUPPORTED_FIELD',
    message: /^spec\.architecture amd64 .*only arm64 guests/,
  });
  assert.throws(on('riscv64', 'riscv64'), { code: 'UNSUPPORTED_FIELD', message: /^the node architecture riscv64/ });
});

test('a watchdog is that of the architecture, or none', () => {
  const dog = { name: 'dog' };
  const asked = (architecture: string, watchdog: object) => () =>
    built(
      { firmware: {}, devices: { ...lean, watchdog: { ...dog, ...watchdog } } },
      { architecture },
      contextWith({ architecture }),
    );
  assert.throws(asked('arm64', { i6300esb: {} }), { message: /devices\.watchdog .*guests of arm64 have none/ });
  assert.throws(asked('s390x', { i6300esb: {} }), { message: /watchdog\.i6300esb .*use diag288/ });
  assert.throws(asked('amd64', { diag288: {} }), { message: /watchdog\.diag288 .*use i6300esb/ });
  assert.match(asked('s390x', { diag288: { action: 'poweroff' } })(), /<watchdog model="diag288" action="poweroff">/);
});
