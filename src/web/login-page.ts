/** What a browser without the token sees. No script, so that it works whatever is wrong. */
export function loginPage(message: string, tokenHint: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Virtual machines: token needed</title>
<style>
  :root { color-scheme: light dark; --paper: #f5f7fa; --card: #fff; --ink: #17212e; --soft: #4d5b6e; --line: #8592a3; --act: #1b5fc1; --on: #fff }
  @media (prefers-color-scheme: dark) { :root { --paper: #10151c; --card: #1a212b; --ink: #e7edf5; --soft: #a9b6c6; --line: #66758a; --act: #7db4ff; --on: #0c1420 } }
  body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
  main { box-sizing: border-box; width: min(28rem, calc(100vw - 2rem)); padding: 2rem; background: var(--card); border-radius: 12px; box-shadow: 0 1px 3px #0003 }
  h1 { margin: 0 0 .5rem; font-size: 1.25rem }
  p { margin: 0 0 1.25rem; color: var(--soft); overflow-wrap: anywhere }
  label { display: block; margin-bottom: .25rem; font-weight: 600 }
  input, button { box-sizing: border-box; width: 100%; padding: .6rem .75rem; border-radius: 8px; font: inherit }
  input { margin-bottom: 1rem; border: 1px solid var(--line); background: var(--paper); color: inherit }
  button { border: 0; background: var(--act); color: var(--on); font-weight: 600; cursor: pointer }
  :focus-visible { outline: 3px solid var(--act); outline-offset: 2px }
</style>
</head>
<body>
<main>
<h1>${escaped(capitalised(message))}</h1>
<p>${escaped(tokenHint)}</p>
<form method="get" action="/">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off" autofocus required>
<button>Open</button>
</form>
</main>
</body>
</html>
`;
}

/** Goes on to the page as a request of this site: the cookie does not come with one that another site began. */
export const enterPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><title>Virtual machines</title></head>
<body><a href="/">Virtual machines</a></body></html>
`;

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
