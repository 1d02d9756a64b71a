/* Light or dark: as the system has it, until the reader chooses. The choice is kept where pages may keep things. */
"use strict";

window.ParseTheme = (() => {
  const KEY = "parse-dg-theme";
  const ORDER = ["auto", "light", "dark"];
  const WORDS = { auto: "Colours: as the system", light: "Colours: light", dark: "Colours: dark" };

  function kept() {
    try {
      const found = localStorage.getItem(KEY);
      return ORDER.includes(found) ? found : "auto";
    } catch {
      return "auto"; // storage may be refused, as in a page opened from a file
    }
  }

  function keep(theme) {
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // not kept, then
    }
  }

  /* Makes a button go round: as the system, light, dark. */
  function attach(button) {
    let theme = kept();
    const apply = () => {
      if (theme === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = theme;
      button.textContent = WORDS[theme];
    };
    button.addEventListener("click", () => {
      theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
      keep(theme);
      apply();
    });
    button.hidden = false;
    apply();
  }

  return { attach };
})();
