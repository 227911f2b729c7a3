// Terminal output on stdin → SVG on stdout: node scripts/terminal-picture.mjs "npm run up" < output.txt > docs/up.svg
import { stripVTControlCharacters } from 'node:util';

const title = process.argv[2] ?? '';
let text = '';
for await (const chunk of process.stdin) text += chunk;

const escapeXml = (value) => value.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
const lines = stripVTControlCharacters(text).replaceAll('\r', '').trimEnd().split('\n');
const lineHeight = 19;
const width = 24 + 8.45 * Math.max(60, ...lines.map((line) => line.length));
const height = 56 + lines.length * lineHeight;

function colour(line) {
  if (line.startsWith('$')) return '#7ee787';
  if (/^\s*(✔|✓|ok\b|done\b)/.test(line)) return '#a5d6ff';
  return '#e6edf3';
}

const rows = lines
  .map((line, index) => {
    const y = 56 + index * lineHeight;
    return `<text x="16" y="${y}" fill="${colour(line)}" xml:space="preserve">${escapeXml(line)}</text>`;
  })
  .join('\n');

console.log(`<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(width)}" height="${height}" role="img">
<title>${escapeXml(title)}</title>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<circle cx="18" cy="18" r="6" fill="#ff5f56"/><circle cx="38" cy="18" r="6" fill="#ffbd2e"/><circle cx="58" cy="18" r="6" fill="#27c93f"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14">
${rows}
</g>
</svg>`);
