/**
 * What a browser sees at an address that is not of this start. Nothing can be typed in: a token belongs to the address that the
 * node printed, and a page that asks for one is another program's.
 */
export function refusalPage(message: string, tokenHint: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Virtual machines: another address</title>
<style>
  :root { color-scheme: light dark; --paper: #f5f7fa; --card: #fff; --ink: #17212e; --soft: #4d5b6e }
  @media (prefers-color-scheme: dark) { :root { --paper: #10151c; --card: #1a212b; --ink: #e7edf5; --soft: #a9b6c6 } }
  body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
  main { box-sizing: border-box; width: min(28rem, calc(100vw - 2rem)); padding: 2rem; background: var(--card); border-radius: 12px; box-shadow: 0 1px 3px #0003 }
  h1 { margin: 0 0 .5rem; font-size: 1.25rem }
  p { margin: 0; color: var(--soft); overflow-wrap: anywhere }
</style>
</head>
<body>
<main>
<h1>${escaped(capitalised(message))}</h1>
<p>${escaped(capitalised(tokenHint))}.</p>
</main>
</body>
</html>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
