import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

const guide = readdirSync('docs/operators-guide').map((file) => path.join('docs/operators-guide', file));
const single = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'daemonset/README.md',
  'image/README.md',
  'docs/security.md',
];
const pages = [...single, ...guide];

/** As GitHub makes them of headings. */
function anchors(file: string): string[] {
  const headings = readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm);
  return [...headings].map(([, text = '']) =>
    text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('every link of a page leads to a file that is there, and to a heading in it', () => {
  const links = pages.flatMap((page) =>
    [...readFileSync(page, 'utf8').matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map(([, link = '']) => ({ page, link })),
  );
  assert.ok(links.length > 30, `${links.length} links`);
  const broken = links.filter(({ page, link }) => {
    const [target = '', anchor] = link.split('#');
    const file = target === '' ? page : path.join(path.dirname(page), target);
    return !existsSync(file) || (anchor !== undefined && !anchors(file).includes(anchor));
  });
  assert.deepEqual(broken, []);
});

test('the guide’s list of pages has all of them', () => {
  const index = readFileSync('docs/operators-guide/README.md', 'utf8');
  const missing = readdirSync('docs/operators-guide').filter(
    (file) => file !== 'README.md' && !index.includes(`(${file})`),
  );
  assert.deepEqual(missing, []);
});
