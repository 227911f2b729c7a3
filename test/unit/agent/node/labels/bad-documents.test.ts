import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import {
  readCapabilities,
  readDomainCapabilities,
  readSupportedFeatures,
} from '../../../../../src/agent/node/labels/documents.ts';
import { LibvirtFileError } from '../../../../../src/agent/node/libvirt-xml/index.ts';
import { hostsDir } from './facts.ts';

const good = readFileSync(path.join(hostsDir, 'real-nested-kvm/virsh_domcapabilities.xml'), 'utf8');
const features = (text: string) => readSupportedFeatures(text, 'amd64');
const readers = [readDomainCapabilities, readCapabilities, features];

function refuses(read: (text: string) => unknown, text: string, code: string): void {
  assert.throws(
    () => read(text),
    (error) => error instanceof LibvirtFileError && error.code === code,
  );
}

test('what is no XML is refused: nothing, blanks, garbage, JSON, an error message, half a tag', () => {
  const garbage = String.fromCharCode(...Array.from({ length: 4_000 }, (_, at) => (at * 7_919) % 65_536));
  for (const text of [
    '',
    ' \n\t',
    garbage,
    '{"a":1}',
    'error: failed to connect to the hypervisor',
    '<cpu',
    '</cpu>',
  ]) {
    for (const read of readers) {
      assert.throws(() => read(text), LibvirtFileError, JSON.stringify(text.slice(0, 40)));
    }
  }
});

test('a document torn anywhere is refused', () => {
  for (let end = 1; end < good.trimEnd().length; end += 97)
    refuses(readDomainCapabilities, good.slice(0, end), 'NO_XML');
});

test('another document than the one that belongs there is refused', () => {
  refuses(readCapabilities, good, 'WRONG_DOCUMENT');
  refuses(features, good, 'WRONG_DOCUMENT');
  refuses(readDomainCapabilities, '<cpu><feature policy="require" name="a"/></cpu>', 'WRONG_DOCUMENT');
  refuses(readDomainCapabilities, '<domainCapabilities/>', 'WRONG_DOCUMENT');
  refuses(readDomainCapabilities, '<domainCapabilities><arch>x86_64</arch></domainCapabilities>', 'WRONG_DOCUMENT');
  refuses(readCapabilities, '<capabilities>text</capabilities>', 'WRONG_DOCUMENT');
  refuses(
    readDomainCapabilities,
    '<a><domainCapabilities><cpu><mode/></cpu></domainCapabilities></a>',
    'WRONG_DOCUMENT',
  );
});

test('entities are never expanded, and a document that declares some is refused', () => {
  const bomb = `<?xml version="1.0"?><!DOCTYPE cpu [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
    <cpu><feature policy="require" name="&b;"/></cpu>`;
  refuses(features, bomb, 'NO_XML');
  const file =
    '<!DOCTYPE cpu [<!ENTITY x SYSTEM "file:///etc/passwd">]><cpu><feature policy="require" name="&x;"/></cpu>';
  refuses(features, file, 'NO_XML');
  assert.deepEqual(features('<cpu><feature policy="require" name="&a;"/></cpu>'), ['&a;']);
});

test('an absurd document is refused: 10 MB, ten thousand features, elements without end', () => {
  refuses(features, `<cpu>${' '.repeat(10_000_000)}</cpu>`, 'TOO_LARGE');
  const many = Array.from({ length: 10_000 }, (_, at) => `<feature policy='require' name='f${at}'/>`).join('');
  refuses(features, `<cpu>${many}</cpu>`, 'TOO_MANY_NAMES');
  const depth = 50_000;
  refuses(features, `${'<cpu>'.repeat(depth)}${'</cpu>'.repeat(depth)}`, 'NO_XML');
});

test('names that mean something to JavaScript do no harm', () => {
  const xml = `<cpu><feature policy='require' name='__proto__'/><feature policy='require' name='constructor'/>
    <__proto__ policy='require'/><hasOwnProperty/></cpu>`;
  let found: readonly string[] = [];
  try {
    found = features(xml);
  } catch (error) {
    assert.ok(error instanceof LibvirtFileError);
  }
  assert.ok(found.every((name) => ['__proto__', 'constructor'].includes(name)));
  assert.equal(({} as { policy?: string }).policy, undefined);
});

test('elements in places where nobody expects them are passed over', () => {
  const xml = `<capabilities><host>text</host><guest>text</guest><guest><arch name='x'><machine/><machine> </machine>
    <machine><b>q35</b></machine><machine a='1'>q35</machine></arch></guest></capabilities>`;
  assert.deepEqual(readCapabilities(xml), { machineTypes: ['q35'], deprecatedMachineTypes: [] });
  const modes = `<domainCapabilities><cpu><mode name='host-model'>text</mode><mode><model usable=''>a</model>
    <model usable='maybe'>b</model><model>c</model></mode></cpu><features>text</features></domainCapabilities>`;
  const facts = readDomainCapabilities(modes);
  assert.deepEqual([facts.hostModel, facts.knownModels, facts.usableModels], [undefined, ['b'], ['b']]);
});

test('a counter that is no number is no counter', () => {
  const read = (attributes: string) =>
    readCapabilities(`<capabilities><host><cpu><counter name='tsc' ${attributes}/></cpu></host></capabilities>`).tsc;
  assert.deepEqual(read("frequency='2596124000' scaling='no'"), { frequencyHz: '2596124000', scalable: false });
  for (const bad of ["frequency=''", '', "frequency='2.5e9'", "frequency='-1'", `frequency='${'9'.repeat(64)}'`]) {
    assert.equal(read(bad), undefined, bad);
  }
});
