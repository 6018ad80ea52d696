"""Words to leave out: short lists for some languages, scikit-learn's for English, or a file of one's own."""

from __future__ import annotations

from pathlib import Path

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

_LISTS = {
    "german": """
        ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da dabei
        dadurch dafür dagegen daher damit danach dann daran darauf daraus darin darüber das dass dazu dein deine dem den
        denn der deren des dessen deshalb die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem
        einen einer eines einige er es etwa etwas euch euer für gegen gewesen hab habe haben hat hatte hatten hier hin
        hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jedem jeden jeder jedes jetzt
        kann kein keine keinen können könnte machen man mehr mein meine mich mir mit muss müssen nach nicht nichts noch
        nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so sogar soll sollen sollte
        sondern sonst über um und uns unser unter viel viele vom von vor wann war waren warum was weil welche welchem
        welchen welcher wenn wer werde werden wie wieder will wir wird wo wollen worden wurde wurden würde zu zum zur
        zwar zwischen""",
    "french": """
        ai aie ainsi alors après au aucun aucune aussi autre autres aux avait avant avec avoir avons bien car ce ceci
        cela celle celles celui ces cet cette ceux chaque chez ci comme comment dans de depuis des deux dire dit doit
        donc dont du elle elles en encore entre est et étaient était été être eu eux fait faire faut fois font ici il
        ils je jusque la là le les leur leurs lors lui ma mais me même mêmes mes moi moins mon ne ni non nos notre nous
        on ont ou où par parce pas pendant peu peut peuvent plus pour pourquoi puis qu quand que quel quelle quelles
        quels qui quoi sa sans se sera ses si sinon soi soit son sont sous sur ta te tel telle tes toi ton toujours
        tous tout toute toutes très trop tu un une vers vos votre vous""",
    "spanish": """
        al algo algunas algunos ante antes aquel aquella así aún aunque bajo bien cada casi como con contra cual cuando
        cuál de del desde después donde dos durante el él ella ellas ellos en entonces entre era eran eres es esa esas
        ese eso esos está estaba están estar estas este esto estos esta fue fueron ha había hace hacer han hasta hay he
        la las le les lo los más me mi mientras mis mucho muchos muy nada ni no nos nosotros nuestra nuestro o os otra
        otras otro otros para pero poco por porque puede pueden pues que qué quien quién se sea según ser si sí sido
        sin sino sobre solo sólo son su sus también tan tanto te tiene tienen toda todas todo todos tras tu tus un una
        uno unos usted va vez y ya yo""",
    "italian": """
        ad agli ai al alla alle allo altra altre altri altro anche ancora aveva avere che chi ci cioè col come con
        contro cosa così cui da dagli dai dal dalla dalle dallo degli dei del dell della delle dello deve di dopo dove
        dunque due era erano essere fa fare fra fu già gli ha hai hanno ho il in invece io la le lei li lo loro lui ma
        me mentre mi mia mie miei mio molto ne negli nei nel nella nelle nello no noi non nostra nostro nulla ogni ora
        per perché però più poco poi prima può qual quale quando quanto quasi quella quelle quelli quello questa queste
        questi questo qui se sei sempre senza si sia siamo sì solo sono sopra sotto sta stata stato su sua sue sui sul
        sulla sulle suo suoi tra tu tua tue tutta tutte tutti tutto un una uno va vi voi""",
    "portuguese": """
        ainda algo algum alguma ao aos apenas após aquela aquele as até cada com como da das de dela dele deles depois
        do dos ela elas ele eles em entre era eram essa essas esse esses esta está estão estas estava este estes eu foi
        foram há isso isto já lhe mais mas me mesmo meu minha muito na não nas nem no nos nós nossa nosso num numa os
        ou outra outras outro outros para pela pelas pelo pelos pode por porque pois quais qual quando que quem são se
        seja sem ser será seu seus só sob sobre sua suas também te tem têm ter teu toda todas todo todos tu tua tudo um
        uma umas uns vai você vos""",
    "dutch": """
        aan al alle alleen als altijd ben bij daar dan dat de deze die dit doch doen door dus een eens en er ge geen
        geweest haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon kunnen maar me
        meer men met mij mijn moet na naar niet niets nog nu of om omdat ons ook op over reeds te tegen toch toen tot
        uit uw van veel voor want waren was wat we wel werd wezen wie wij wil worden zal ze zelf zich zij zijn zo zonder
        zou""",
}
LANGUAGES = ("english", *_LISTS)
"""Languages whose stop words are known."""


def stop_words_of(choice: str) -> list[str] | None:
    """Find the words to leave out.

    Parameters
    ----------
    choice : a language of `LANGUAGES`, "none", or a text file with a word per line

    Returns
    -------
    words : list of str, lower case; None keeps every word

    Raises
    ------
    ValueError
        Where it is none of these.

    Examples
    --------
    >>> "und" in stop_words_of("german"), stop_words_of("none")
    (True, None)
    """
    if choice == "none":
        return None
    if choice == "english":
        return sorted(ENGLISH_STOP_WORDS)
    if choice in _LISTS:
        return _LISTS[choice].split()
    if not Path(choice).is_file():
        raise ValueError(f"{choice!r} is neither a file nor one of {', '.join((*LANGUAGES, 'none'))}.")
    try:
        text = Path(choice).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{choice} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    return sorted({word.lower() for word in text.split()})
