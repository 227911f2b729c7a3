import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VmiSpec } from '../../../../src/api/index.ts';
import { accessCredentialsOf, checkAccessCredentials } from '../../../../src/launcher/domain/access-credentials.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';

const vmiWith = (spec: Partial<VmiSpec>) => launcherVmi({ spec });
const source = { secret: { secretName: 'keys' } };
const keysBy = (propagationMethod: object) => ({ sshPublicKey: { source, propagationMethod } });

test('each credential says what its secret is for', () => {
  const accessCredentials = [
    keysBy({ noCloud: {} }),
    keysBy({ configDrive: {} }),
    keysBy({ qemuGuestAgent: { users: ['root', 'debian'] } }),
    { userPassword: { source, propagationMethod: { qemuGuestAgent: {} } } },
  ];
  assert.deepEqual(accessCredentialsOf(vmiWith({ accessCredentials })), [
    { kind: 'cloud-init-keys', secretName: 'keys', by: 'noCloud' },
    { kind: 'cloud-init-keys', secretName: 'keys', by: 'configDrive' },
    { kind: 'agent-keys', secretName: 'keys', users: ['root', 'debian'] },
    { kind: 'agent-passwords', secretName: 'keys' },
  ]);
  assert.deepEqual(accessCredentialsOf(vmiWith({})), []);
});

const password = { userPassword: { source, propagationMethod: { qemuGuestAgent: {} } } };
const useless: readonly (readonly [object, string])[] = [
  [{}, 'spec.accessCredentials[0]: needs one, and only one, of sshPublicKey, userPassword'],
  [{ ...keysBy({ noCloud: {} }), ...password }, 'spec.accessCredentials[0]: needs one, and only one, of'],
  [{ sshPublicKey: { propagationMethod: {} } }, 'sshPublicKey.source.secret.secretName: must name a secret'],
  [{ sshPublicKey: { source: { secret: { secretName: '../x' } } } }, 'sshPublicKey.source.secret.secretName'],
  [keysBy({}), 'sshPublicKey.propagationMethod: needs one, and only one, of noCloud, configDrive, qemuGuestAgent'],
  [keysBy({ noCloud: {}, configDrive: {} }), 'sshPublicKey.propagationMethod: needs one, and only one, of'],
  [keysBy({ qemuGuestAgent: {} }), 'qemuGuestAgent.users: must name at least one user'],
  [keysBy({ qemuGuestAgent: { users: [''] } }), 'qemuGuestAgent.users: must name at least one user'],
  [{ userPassword: { source } }, 'userPassword.propagationMethod: needs qemuGuestAgent'],
  [keysBy({ noCloud: {} }), 'sshPublicKey.propagationMethod.noCloud: needs a volume of kind cloudInitNoCloud'],
  [keysBy({ configDrive: {} }), 'propagationMethod.configDrive: needs a volume of kind cloudInitConfigDrive'],
];

for (const [credential, message] of useless) {
  test(`a credential that would do nothing is refused: ${message}`, () => {
    assert.throws(
      () => checkAccessCredentials(vmiWith({ accessCredentials: [credential] })),
      (error: Error) => error.message.includes(message),
    );
  });
}

test('keys by cloud-init are taken with the volume they travel by', () => {
  const volumes = [{ name: 'seed', cloudInitNoCloud: { userData: 'x' } }];
  checkAccessCredentials(vmiWith({ accessCredentials: [keysBy({ noCloud: {} })], volumes }));
});
