document.body.append('Virtual machines');
